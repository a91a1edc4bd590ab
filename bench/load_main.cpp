// Many streaming clients of a server that speaks OpenAI's chat API, on one thread: `load_client --help`. Prints what
// they saw as JSON. It knows nothing of Quire, so that others can be measured with the same clients.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "load_client.h"

namespace {

using namespace quire::load;
using Json = nlohmann::ordered_json;

struct Options {
  std::string host = "127.0.0.1", port = "8080", model, system_file, question = "What comes after the number";
  int clients = 1, max_tokens = 64, timeout_s = 600;
  double seconds = 30, rate = 0;
  std::int64_t requests = 0;
  bool stop_at_end = false;
};

// Each question has its own number, at its end: they share all before it.
void write_bodies(const Options& options, Plan& plan) {
  std::string system;
  if (!options.system_file.empty()) {
    std::ostringstream text;
    text << std::ifstream(options.system_file).rdbuf();
    system = text.str();
  }
  Json body;
  if (!options.model.empty()) body["model"] = options.model;
  body["messages"] = Json::array();
  if (!system.empty()) body["messages"].push_back({{"role", "system"}, {"content", system}});
  static constexpr std::string_view kNumber = "@@number@@";
  body["messages"].push_back({{"role", "user"}, {"content", fmt::format("{} {}?", options.question, kNumber)}});
  body["max_tokens"] = options.max_tokens;
  body["ignore_eos"] = true;
  body["temperature"] = 0;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  const std::string written = body.dump();
  const auto at = written.rfind(kNumber);
  plan.before = written.substr(0, at);
  plan.after = written.substr(at + kNumber.size());
}

Json spread(std::vector<float>& of) {
  if (of.empty()) return nullptr;
  std::sort(of.begin(), of.end());
  const auto at = [&](double share) {
    return of[std::min(of.size() - 1, static_cast<std::size_t>(share * static_cast<double>(of.size())))];
  };
  return {{"p50", at(0.5)}, {"p90", at(0.9)}, {"p99", at(0.99)}, {"most", of.back()}, {"count", of.size()}};
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

Json report(Tally& tally, double window_s, double wall_s) {
  Json statuses = Json::object();
  for (const auto& [status, count] : tally.statuses) statuses[std::to_string(status)] = count;
  std::int64_t errors = 0;
  for (const auto& [kind, count] : tally.errors) errors += count;
  return {{"seconds", window_s},
          {"seconds_until_last_answer", wall_s},
          {"requests", tally.begun},
          {"answered", tally.answered},
          {"abandoned", tally.begun - tally.answered - tally.refused - errors},
          {"most_open", tally.most_open},
          {"errors", errors},
          {"errors_by_kind", tally.errors},
          {"statuses", statuses},
          {"tokens", tally.tokens},
          {"tokens_per_second", static_cast<double>(tally.tokens) / window_s},
          {"tokens_after_the_end", tally.tokens_later},
          {"tokens_the_server_counted", tally.tokens_said},
          {"first_token_ms", spread(tally.first_token_ms)},
          {"between_tokens_ms", spread(tally.between_tokens_ms)},
          {"whole_answer_ms", spread(tally.whole_ms)},
          {"refused", tally.refused},
          {"refused_without_retry_after", tally.refused_without_retry_after},
          {"refusal_ms", spread(tally.refusal_ms)},
          {"keep_alives", tally.comments},
          {"longest_silence_ms", tally.longest_silence_ms},
          {"client_cpu_seconds", cpu_seconds()},
          {"client_cpu_share", cpu_seconds() / wall_s}};
}

// Open loop: a new client whenever it is time for one, whatever the others wait for.
class Arrivals {
 public:
  Arrivals(boost::asio::io_context& io, const Plan& plan, Tally& tally, double rate)
      : io_(io), timer_(io), plan_(plan), tally_(tally), between_(1 / rate), next_(Clock::now()) {}

  void come() {
    for (; next_ <= Clock::now(); next_ += std::chrono::duration_cast<Clock::duration>(between_)) {
      if (next_ >= plan_.end) return;
      std::make_shared<Client>(io_, plan_, tally_)->ask();
    }
    timer_.expires_at(next_);
    timer_.async_wait([this](const boost::system::error_code& code) {
      if (!code.failed()) come();
    });
  }

 private:
  boost::asio::io_context& io_;
  boost::asio::steady_timer timer_;
  const Plan& plan_;
  Tally& tally_;
  std::chrono::duration<double> between_;
  Clock::time_point next_;
};

// A client is a descriptor.
void allow_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(const Options& options) {
  allow_descriptors();
  boost::asio::io_context io(1);
  Plan plan;
  Tally tally;
  boost::system::error_code code;
  const auto found = boost::asio::ip::tcp::resolver(io).resolve(options.host, options.port, code);
  if (code.failed()) {
    std::cerr << fmt::format("load_client: {}:{}: {}; expected a host and a port\n", options.host, options.port,
                             code.message());
    return 2;
  }
  write_bodies(options, plan);
  plan.server = found.begin()->endpoint();
  plan.host = fmt::format("{}:{}", options.host, options.port);
  plan.requests = options.requests;
  plan.timeout = std::chrono::seconds(options.timeout_s);
  plan.max_tokens = options.max_tokens;
  plan.again = options.rate == 0;
  const auto start = Clock::now();
  plan.end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options.seconds));

  std::vector<std::shared_ptr<Client>> clients;
  std::optional<Arrivals> arrivals;
  if (options.rate > 0) {
    arrivals.emplace(io, plan, tally, options.rate);
    arrivals->come();
  } else {
    for (int i = 0; i < options.clients; ++i) {
      clients.push_back(std::make_shared<Client>(io, plan, tally));
      clients.back()->ask();
    }
  }
  boost::asio::steady_timer end(io);
  if (options.stop_at_end) {
    end.expires_at(plan.end);
    end.async_wait([&](const boost::system::error_code&) {
      for (const auto& client : clients) client->abandon();
    });
  }
  io.run();
  const double wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  // A fixed number of requests may be answered sooner.
  std::cout << report(tally, std::min(options.seconds, wall_s), wall_s).dump(2) << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Streaming clients of a server that speaks OpenAI's chat API");
  app.add_option("--host", options.host)->capture_default_str();
  app.add_option("--port", options.port)->capture_default_str();
  app.add_option("--model", options.model, "As the server calls it; none: its own choice");
  app.add_option("--clients", options.clients, "At once; each asks again when it was answered")
      ->check(CLI::Range(1, 100000));
  app.add_option("--rate", options.rate,
                 "Instead of --clients: so many requests are begun each second, answered or not");
  app.add_option("--seconds", options.seconds, "For so long requests are begun")->capture_default_str();
  app.add_option("--requests", options.requests, "At most so many");
  app.add_option("--system-file", options.system_file, "A system message that all requests begin with");
  app.add_option("--question", options.question, "Asked with a number behind it, each time another")
      ->capture_default_str();
  app.add_option("--max-tokens", options.max_tokens, "Of every answer: the model's own end is ignored")
      ->capture_default_str();
  app.add_option("--timeout", options.timeout_s, "Seconds for one request")->capture_default_str();
  app.add_flag("--stop-at-end", options.stop_at_end, "Leave answers unfinished when the time is over");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
