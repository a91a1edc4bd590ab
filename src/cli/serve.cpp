// quire serve: a model for others, over HTTP.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "cli/common.h"
#include "server/api.h"
#include "server/server.h"

namespace quire::cli {
namespace {

struct Options {
  ModelOptions model;
  std::string alias;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file, admin_key_file;
  std::vector<std::string> allowed_hosts;
  bool insecure = false;
  bool quiet = false;
  int http_threads = 2;
  std::int64_t parallel = 64;
  std::int64_t queue = 1024;
  double prefill_budget_ms = 0;
  int drain_seconds = 60;
};

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0; }

Result<void> add_keys(const Options& options, server::Keys& keys) {
  using Added = Result<void>;
  const auto add_each = [&](const char* variable, bool admin) -> Added {
    const char* value = std::getenv(variable);
    std::string_view rest = value == nullptr ? std::string_view() : std::string_view(value);
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      if (auto added = keys.add(std::string(rest.substr(0, comma)), admin); !added.ok()) return added;
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    return {};
  };
  for (const std::string& key : options.api_keys) {
    if (auto added = keys.add(key, false); !added.ok()) return added;
  }
  if (!options.api_key_file.empty()) {
    if (auto added = keys.add_file(options.api_key_file, false); !added.ok()) return added;
  }
  if (auto added = add_each("QUIRE_API_KEY", false); !added.ok()) return added;
  if (!options.admin_key_file.empty()) {
    if (auto added = keys.add_file(options.admin_key_file, true); !added.ok()) return added;
  }
  return add_each("QUIRE_ADMIN_KEY", true);
}

// Names a browser may know this server by. Any other in a request's Host is a page that was made to point here.
std::vector<std::string> known_hosts(const Options& options) {
  std::vector<std::string> hosts{"localhost", "127.0.0.1", "[::1]", options.host};
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) == 0) hosts.emplace_back(name);
  hosts.insert(hosts.end(), options.allowed_hosts.begin(), options.allowed_hosts.end());
  return hosts;
}

Result<void> serve(const Options& options) {
  server::Router router;
  if (auto added = add_keys(options, router.keys); !added.ok()) return added;
  if (!is_loopback(options.host) && !router.keys.required() && !options.insecure) {
    return Error{Errc::invalid_argument,
                 fmt::format("--host {} lets others in, and there is no key: give --api-key-file FILE (or --no-key)",
                             options.host)};
  }
  router.hosts = known_hosts(options);

  auto model = options.model.load();
  if (!model.ok()) return model.error();
  EngineOptions engine;
  engine.context = options.model.context;
  engine.threads = options.model.threads;
  engine.kernels = options.model.kernels;
  engine.max_batch = options.model.batch;
  engine.cache = options.model.cache;
  engine.max_running = options.parallel;
  engine.max_waiting = options.queue;
  engine.prefill_budget_ms = options.prefill_budget_ms;
  server::Models models;
  if (auto added = models.add(std::move(*model), options.alias, engine); !added.ok()) return added;

  server::Metrics metrics(models);
  const server::Serving serving{models, metrics};
  server::add_completions(router, serving);
  server::add_chat(router, serving);
  server::add_responses(router, serving);
  server::add_messages(router, serving);
  server::add_embeddings(router, serving);
  server::add_text_routes(router, serving);
  server::add_status(router, serving);
  server::add_cache(router, serving);
  server::add_page(router);

  server::ServerOptions listening;
  listening.host = options.host;
  listening.port = options.port;
  listening.threads = options.http_threads;
  listening.drain_time = std::chrono::seconds(options.drain_seconds);
  std::mutex log_mutex;
  if (!options.quiet) {
    listening.log = [&log_mutex](const std::string& line) {
      const std::scoped_lock lock(log_mutex);
      say(line + "\n");
    };
  }
  server::Server server(std::move(router), listening);
  if (auto listened = server.listen(); !listened.ok()) return listened;
  say(fmt::format("quire: {} on http://{}:{}{}\n", models.all().front()->name, options.host, server.port(),
                  server.router().keys.required() ? "" : ", without a key"));
  server.run();
  models.shut_down();  // before the connections its streams would wake
  say("quire: stopped\n");
  return {};
}

}  // namespace

void add_serve(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("serve", "Answer over HTTP, as OpenAI's and llama.cpp's servers do");
  options->model.add_to(*command);
  command->add_option("-a,--alias,--served-model-name", options->alias,
                      "What clients call the model; else the file's name");
  command->add_option("--host", options->host, "Address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "Port; 0 for any that is free")->capture_default_str();
  command
      ->add_option("--api-key", options->api_keys,
                   "A key clients must send; others can see it in the process list: prefer a file")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--api-key-file", options->api_key_file,
                      "Keys, one a line, in a file of mode 0600; also $QUIRE_API_KEY");
  command->add_option("--admin-key-file", options->admin_key_file,
                      "Keys that may look at and empty the cache; also $QUIRE_ADMIN_KEY");
  command->add_option("--allowed-host", options->allowed_hosts, "Further names in a request's Host that are answered")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--no-key", options->insecure, "Listen on a public address without a key");
  command->add_flag("-q,--quiet", options->quiet, "No line for each request");
  command->add_option("--http-threads", options->http_threads, "Threads that read and write")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("-n,--parallel,--max-num-seqs", options->parallel, "Sequences computed together")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--max-queue", options->queue, "Requests in line; more are told to come back")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--prefill-budget-ms", options->prefill_budget_ms,
                   "Milliseconds a step may spend on prompts while others generate; 0 chooses")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--drain-seconds", options->drain_seconds, "How long answers under way may take after SIGTERM")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str();
  command->callback([options, &exit_status] {
    if (auto served = serve(*options); !served.ok()) exit_status = report_error(served.error());
  });
}

}  // namespace quire::cli
