#include "lab/workbench.h"

#include <algorithm>

#include "core/check.h"
#include "core/fail.h"

namespace quire::lab {

Request greedy_request(Tokens tokens, std::int64_t generated) {
  Request request;
  request.tokens = std::move(tokens);
  request.sampling.temperature = 0;
  request.max_tokens = generated;
  request.ignore_end = true;
  return request;
}

Tokens Workbench::prompt(std::int64_t from, std::int64_t count) const {
  QUIRE_ASSERT(!text_.empty(), "an experiment without a text");
  Tokens tokens;
  for (std::int64_t i = from; i < from + count; ++i) {
    tokens.push_back(text_[static_cast<std::size_t>(i % std::ssize(text_))]);
  }
  if (model_->adds_bos() && count > 0) tokens.front() = model_->tokenize("").front();
  return tokens;
}

CachePlace Workbench::broken_key() const {
  if (options_.broken_key) return *options_.broken_key;
  CachePlace usual;
  usual.layer = std::min<std::int64_t>(usual.layer, info().layers - 1);
  usual.position = std::min<std::int64_t>(usual.position, info().context / 4);
  return usual;
}

std::vector<std::int64_t> Workbench::within_context(std::vector<std::int64_t> lengths, std::int64_t more) const {
  std::erase_if(lengths, [&](std::int64_t length) { return length + more > info().context; });
  return lengths;
}

Result<Session> Workbench::open(const CacheSettings& cache, std::int64_t context) const {
  SessionOptions options;
  options.context = context > 0 ? context : info().context;
  options.threads = options_.threads;
  options.kernels = kLabKernels;
  options.cache = cache;
  return Session::create(model_, options);
}

Result<Engine> Workbench::start(EngineOptions options) const {
  options.threads = options_.threads;
  options.kernels = kLabKernels;
  return Engine::create(model_, options);
}

const MachineSpeed& Workbench::machine() {
  if (!machine_) {
    ThreadPool pool(options_.threads > 0 ? options_.threads : usable_cpus());
    machine_ = measure_machine(pool);
  }
  return *machine_;
}

Result<void> Workbench::at(double part, std::string_view what) const {
  if (options_.cancel != nullptr && options_.cancel->load()) return Error{Errc::cancelled, "stopped"};
  if (options_.on_progress) options_.on_progress(part, what);
  return {};
}

}  // namespace quire::lab
