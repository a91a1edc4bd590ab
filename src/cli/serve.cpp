// quire serve: a model for others, over HTTP.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "cli/common.h"
#include "core/memory_limit.h"
#include "server/api.h"
#include "server/saved_files.h"
#include "server/server.h"

namespace quire::cli {

namespace fs = std::filesystem;

namespace {

struct Options {
  ModelOptions model;  // its path is not used
  std::vector<std::string> models;
  std::uint64_t model_bytes = 0;
  std::string alias;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file, admin_key_file;
  std::vector<std::string> allowed_hosts;
  std::string tls_cert, tls_key;
  bool insecure = false;
  bool quiet = false;
  int http_threads = 2;
  std::int64_t parallel = 64;
  std::int64_t queue = 1024;
  double prefill_budget_ms = 0;
  int drain_seconds = 60;
  std::string save_path;
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

struct ModelFile {
  std::string path;
  bool of_folder;  // nobody asked for it by name
};

// What -m names: files, and whatever *.gguf lies in a folder, by name.
Result<std::vector<ModelFile>> model_files(const std::vector<std::string>& given) {
  std::vector<ModelFile> files;
  const auto known = [&](const fs::path& path) {
    std::error_code ignored;
    return std::ranges::any_of(files, [&](const ModelFile& file) { return fs::equivalent(file.path, path, ignored); });
  };
  std::vector<std::string> names = given;
  if (names.empty()) {
    auto found = find_model("");
    if (!found.ok()) return found.error();
    names.push_back(std::move(*found));
  }
  for (const std::string& name : names) {
    std::error_code error;
    if (!fs::is_directory(name, error)) {
      files.push_back({name, false});
      continue;
    }
    std::vector<std::string> inside;
    for (fs::directory_iterator it(name, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".gguf" && !known(it->path())) inside.push_back(it->path().string());
    }
    if (error) return Error{Errc::io, fmt::format("{}: cannot read the folder: {}", name, error.message())};
    if (inside.empty() && names.size() == 1) {
      return Error{Errc::not_found, fmt::format("{}: no *.gguf in the folder; expected model files", name)};
    }
    std::ranges::sort(inside);
    for (std::string& path : inside) files.push_back({std::move(path), true});
  }
  return files;
}

// One file is loaded at the start; of several each when it is asked for.
Result<void> add_models(const Options& options, const std::vector<ModelFile>& files, server::Models& models) {
  for (const ModelFile& file : files) {
    auto added = models.add(file.path, options.alias);
    if (added.ok()) continue;
    if (!file.of_folder) return added;
    say(fmt::format("quire: left out: {}\n", added.error().message));
  }
  return models.start();
}

server::ModelsOptions models_options(const Options& options, const std::vector<ModelFile>& files) {
  server::ModelsOptions wanted;
  EngineOptions& engine = wanted.engine;
  engine.context = options.model.context;
  engine.threads = options.model.threads;
  engine.kernels = options.model.kernels;
  engine.max_batch = options.model.batch;
  engine.cache = options.model.cache;
  engine.max_running = options.parallel;
  engine.max_waiting = options.queue;
  engine.prefill_budget_ms = options.prefill_budget_ms;
  wanted.load.keep_packed = options.model.keep_packed;
  wanted.on_demand = files.size() > 1 || files.front().of_folder;
  wanted.bytes = options.model_bytes;
  if (wanted.on_demand && wanted.bytes == 0) wanted.bytes = usable_memory() / 4 * 3;
  return wanted;
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

  server::ServerOptions listening;
  if (!options.tls_cert.empty() || !options.tls_key.empty()) {
    auto tls = server::load_tls(options.tls_cert, options.tls_key);
    if (!tls.ok()) return tls.error();
    listening.tls = std::move(*tls);
    if (server::others_can_read(options.tls_key)) {
      say(fmt::format("quire: --tls-key {}: others can read it; chmod 600 {}\n", options.tls_key, options.tls_key));
    }
  }
  std::mutex log_mutex;
  const auto log = [&log_mutex](const std::string& line) {
    const std::scoped_lock lock(log_mutex);
    say(line + "\n");
  };
  const auto files = model_files(options.models);
  if (!files.ok()) return files.error();
  server::ModelsOptions wanted = models_options(options, *files);
  if (wanted.on_demand && !options.alias.empty()) {
    return Error{Errc::invalid_argument,
                 "--alias names one model; with several, clients call each by its file's name: rename the files"};
  }
  if (!options.quiet) wanted.log = log;
  server::Models models(std::move(wanted));
  if (auto added = add_models(options, *files, models); !added.ok()) return added;

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
  auto saved_files = server::SavedFiles::open(options.save_path);
  if (!saved_files.ok()) return saved_files.error();
  server::add_saving(router, serving, **saved_files);
  server::add_page(router);

  listening.host = options.host;
  listening.port = options.port;
  listening.threads = options.http_threads;
  listening.drain_time = std::chrono::seconds(options.drain_seconds);
  if (!options.quiet) listening.log = log;
  server::Server server(std::move(router), listening);
  if (auto listened = server.listen(); !listened.ok()) return listened;
  std::string names;
  for (const server::ModelView& model : models.look_at_all()) names += (names.empty() ? "" : ", ") + model.name;
  log(fmt::format("quire: {} on {}://{}:{}{}", names, listening.tls == nullptr ? "http" : "https", options.host,
                  server.port(), server.router().keys.required() ? "" : ", without a key"));
  server.run();
  (*saved_files)->stop();  // before the connections it answers and the models it asks
  models.shut_down();      // before the connections its streams would wake
  say("quire: stopped\n");
  return {};
}

}  // namespace

void add_serve(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("serve", "Answer over HTTP, as OpenAI's and llama.cpp's servers do");
  command
      ->add_option("-m,--model", options->models,
                   "Model file (GGUF), or a folder of them; may be given again, the first is the default. Else "
                   "$QUIRE_MODEL, else what lies in models/")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--model-bytes", options->model_bytes,
                   "With several models: the most that weights and caches of those in memory may take, such as 8G; 0 "
                   "for three quarters of what there is")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  options->model.add_all_but_the_path_to(*command);
  command->add_option("-a,--alias,--served-model-name", options->alias,
                      "What clients call the model; else the file's name. Not with several");
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
  command->add_option("--tls-cert", options->tls_cert,
                      "Speak TLS (https) with this certificate: PEM, those that vouch for it behind it");
  command->add_option("--tls-key", options->tls_key, "The certificate's private key: PEM, mode 0600, no passphrase");
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
  command->add_option("--cache-save-path,--slot-save-path", options->save_path,
                      "Folder for /v1/cache/save and /v1/cache/restore; else there are none");
  command->callback([options, &exit_status] {
    if (auto served = serve(*options); !served.ok()) exit_status = report_error(served.error());
  });
}

}  // namespace quire::cli
