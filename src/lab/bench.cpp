#include "lab/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/statistics.h"
#include "engine/cost_model.h"
#include "engine/model_parts.h"

namespace quire {
namespace {

bool stopped(const BenchOptions& options) { return options.cancel != nullptr && options.cancel->load(); }

Error cancelled() { return {Errc::cancelled, "stopped"}; }

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

}  // namespace

double BenchResult::median_ms() const {
  std::vector<double> sorted = ms;
  std::ranges::sort(sorted);
  return percentile(sorted, 0.5);
}

double BenchResult::min_ms() const { return ms.empty() ? 0 : *std::ranges::min_element(ms); }

double BenchResult::tokens_per_second() const {
  const double each = median_ms();
  const auto count = static_cast<double>(work.kind == BenchWork::Kind::prefill ? work.tokens : work.batch);
  return each > 0 ? count / each * 1e3 : 0;
}

Result<Bench> Bench::create(std::shared_ptr<const Model> model, const BenchSetting& setting) {
  SessionOptions options;
  options.context = model->info().context;
  options.threads = setting.threads;
  options.kernels = setting.kernels;
  options.cache = setting.cache;
  options.prefill_chunk = setting.prefill_chunk;
  QUIRE_TRY(Session session, Session::create(model, options));
  return Bench(std::move(model), setting, std::move(session));
}

// Some tokens or other, the same every time, different from any place on: speed does not depend on which.
std::vector<TokenId> Bench::text(std::int64_t tokens, std::int64_t from) const {
  std::vector<TokenId> result;
  const auto vocabulary = static_cast<std::uint64_t>(model_->info().vocabulary);
  for (std::int64_t i = from; i < from + tokens; ++i) {
    const std::uint64_t mixed = (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
    result.push_back(static_cast<TokenId>((mixed >> 33) % vocabulary));
  }
  return result;
}

// The cache holds the first `depth` tokens of the text; what it held of them already stays.
Result<void> Bench::go_to(std::int64_t depth, const BenchOptions& options) {
  if (std::ssize(session_.cached()) > depth) QUIRE_CHECK_OK(session_.rollback(depth));
  // A format may have no way back to the very token.
  while (std::ssize(session_.cached()) < depth) {
    if (stopped(options)) return cancelled();
    const std::int64_t at = std::ssize(session_.cached());
    const std::int64_t count = std::min(setting_.prefill_chunk, depth - at);
    QUIRE_CHECK_OK(session_.prefill(text(count, at)));
    if (options.on_progress) options.on_progress(fmt::format("depth {} of {}", at + count, depth));
  }
  return {};
}

Result<void> Bench::prefill(BenchResult& result, const BenchOptions& options) {
  const BenchWork& work = result.work;
  const std::vector<TokenId> tokens = text(work.tokens, work.depth);
  for (int i = 0; i < options.repeats; ++i) {
    QUIRE_CHECK_OK(go_to(work.depth, options));
    if (stopped(options)) return cancelled();
    if (options.on_progress) options.on_progress(fmt::format("prefill {} of {}", i + 1, options.repeats));
    const auto start = Clock::now();
    QUIRE_CHECK_OK(session_.prefill(tokens));
    result.ms.push_back(milliseconds_since(start));
  }
  result.operations = CostModel(model_->parts().config).prefill_work(work.tokens, work.depth) * 1e9;
  return {};
}

Result<void> Bench::decode(BenchResult& result, const BenchOptions& options) {
  const BenchWork& work = result.work;
  const std::vector<TokenId> tokens = text(work.tokens, work.depth);
  std::vector<float> last;
  for (int i = 0; i < options.repeats; ++i) {
    QUIRE_CHECK_OK(go_to(work.depth, options));
    if (i == 0) result.read_bytes += static_cast<double>(session_.cache().bytes);
    if (options.on_progress) options.on_progress(fmt::format("decode {} of {}", i + 1, options.repeats));
    const auto start = Clock::now();
    for (const TokenId token : tokens) {
      if (stopped(options)) return cancelled();
      QUIRE_TRY(const auto logits, session_.decode(token));
      if (token == tokens.back()) last.assign(logits.begin(), logits.end());
    }
    result.ms.push_back(milliseconds_since(start) / static_cast<double>(work.tokens));
  }
  QUIRE_CHECK_OK(go_to(work.depth, options));
  QUIRE_TRY(const auto at_once, session_.prefill(tokens));
  // A policy that looks at attention may let go of other tokens where it looks once.
  QUIRE_ASSERT(setting_.cache.policy != "full" || same_bits(at_once, last),
               "what was timed is what is computed at once");
  return {};
}

// Everybody's prompt is computed first, and answered with one token; asked again, all go on at once.
Result<void> Bench::decode_batch(BenchResult& result, const BenchOptions& options) {
  const BenchWork& work = result.work;
  if (!engine_) {
    EngineOptions engine_options;
    engine_options.threads = setting_.threads;
    engine_options.kernels = setting_.kernels;
    engine_options.cache = setting_.cache;
    engine_options.max_running = std::max<std::int64_t>(work.batch, 64);
    QUIRE_TRY(Engine engine, Engine::create(model_, engine_options));
    engine_.emplace(std::move(engine));
  }
  std::vector<Request> requests(static_cast<std::size_t>(work.batch));
  for (std::int64_t i = 0; i < work.batch; ++i) {
    Request& request = requests[static_cast<std::size_t>(i)];
    request.tokens = text(work.shared_prefix);
    const std::int64_t own = std::max<std::int64_t>(work.depth - work.shared_prefix, 1);
    const auto rest = text(own, (i + 1) << 32);
    request.tokens.insert(request.tokens.end(), rest.begin(), rest.end());
    request.sampling.temperature = 0;
    request.ignore_end = true;
  }
  for (int i = -1; i < options.repeats; ++i) {
    if (options.on_progress) {
      options.on_progress(i < 0 ? fmt::format("{} prompts", work.batch)
                                : fmt::format("decode {} of {}", i + 1, options.repeats));
    }
    std::vector<Stream> streams;
    for (Request& request : requests) {
      request.max_tokens = i < 0 ? 1 : work.tokens + 1;
      QUIRE_TRY(Stream stream, engine_->submit(request));
      streams.push_back(std::move(stream));
    }
    // From when all have their first token: rows then come and go together.
    Clock::time_point start = Clock::now(), end = start;
    for (Stream& stream : streams) {
      if (stopped(options)) return cancelled();
      if (!stream.next()) return stream.report().ok() ? cancelled() : stream.report().error();
    }
    start = Clock::now();
    for (Stream& stream : streams) {
      if (stopped(options)) return cancelled();
      QUIRE_CHECK_OK(stream.wait());
      end = Clock::now();
    }
    if (i >= 0) {
      result.ms.push_back(milliseconds(start, end) / static_cast<double>(work.tokens));
    }
  }
  return {};
}

Result<BenchResult> Bench::run(const BenchWork& work, const BenchOptions& options) {
  // Where a window moves on, one sequence may go on without end.
  const std::int64_t context = work.batch == 1 ? session_.context() : model_->info().context;
  if (work.tokens < 1 || work.depth < 0 || work.batch < 1 || work.shared_prefix < 0 ||
      work.shared_prefix > work.depth || work.depth + work.tokens > context) {
    return fail(
        Errc::invalid_argument,
        "{} tokens after {} ({} of them shared) by {}; expected at least 1 token, no more shared than there are, "
        "and together at most the context of {}",
        work.tokens, work.depth, work.shared_prefix, work.batch, context);
  }
  BenchResult result;
  result.work = work;
  result.threads = session_.threads();
  if (work.kind == BenchWork::Kind::prefill) {
    QUIRE_CHECK_OK(prefill(result, options));
  } else {
    result.read_bytes = static_cast<double>(model_->info().weights_bytes);
    QUIRE_CHECK_OK(work.batch == 1 ? decode(result, options) : decode_batch(result, options));
  }
  result.bytes_per_token = session_.cache().bytes_per_token;
  if (work.kind == BenchWork::Kind::decode && work.batch > 1) {
    const std::int64_t read = work.shared_prefix + work.batch * (work.depth - work.shared_prefix);
    result.read_bytes += static_cast<double>(read) * static_cast<double>(result.bytes_per_token);
  }
  return result;
}

}  // namespace quire
