// Quire's side of bench/peers.py: measures what it is asked for as `quire bench` does, one line of JSON at a time, and
// keeps what it has loaded and computed, so that a peer can be measured in between.
#include <exception>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/fail.h"
#include "lab/bench.h"
#include "quire/version.h"

namespace {

using quire::Bench;
using quire::BenchWork;
using quire::Result;
using Json = nlohmann::json;

BenchWork work_of(const Json& request) {
  BenchWork work;
  work.kind = request.at("kind") == "prefill" ? BenchWork::Kind::prefill : BenchWork::Kind::decode;
  work.tokens = request.at("n");
  work.depth = request.at("depth");
  work.batch = request.at("batch");
  work.shared_prefix = request.at("shared");
  return work;
}

class Worker {
 public:
  // Milliseconds of a prompt, or of a step of all of the batch.
  Result<double> measure(const Json& request) {
    QUIRE_TRY(Bench * bench, bench_for(request));
    quire::BenchOptions once;
    once.repeats = 1;
    QUIRE_TRY(const quire::BenchResult result, bench->run(work_of(request), once));
    return result.median_ms();
  }

 private:
  Result<Bench*> bench_for(const Json& request) {
    const std::string path = request.at("model"), format = request.at("format");
    quire::BenchSetting setting;
    setting.threads = request.at("threads");
    setting.cache.type_k = setting.cache.type_v = format;
    const std::string key = path + "\n" + format + "\n" + std::to_string(setting.threads);
    auto found = benches_.find(key);
    if (found == benches_.end()) {
      if (!models_.contains(path)) {
        QUIRE_TRY(models_[path], quire::Model::load(path));
      }
      QUIRE_TRY(Bench bench, Bench::create(models_[path], setting));
      found = benches_.emplace(key, std::move(bench)).first;
    }
    return &found->second;
  }

  std::map<std::string, std::shared_ptr<const quire::Model>> models_;
  std::map<std::string, Bench> benches_;
};

Json answer(Worker& worker, const std::string& line) {
  try {
    const Result<double> ms = worker.measure(Json::parse(line));
    return ms.ok() ? Json{{"ms", *ms}} : Json{{"error", ms.error().message}};
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::cout << Json{{"versions", {{"Quire", QUIRE_VERSION}}}}.dump() << std::endl;
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(worker, line).dump() << std::endl;
  return 0;
}
