// How a cache may lie in memory and be filled: orders, page sizes, growing by copying, prompts by token or at once.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/fail.h"
#include "lab/experiments/list.h"
#include "lab/inside.h"

namespace quire::lab {
namespace {

// One layer's keys of a head are read in order: scores of one query with all of them. A plain loop, so that nothing but
// the order of memory differs.
//   page 0: one buffer. Otherwise pages of so many tokens lie scattered, each [heads][tokens][dim].
class Keys {
 public:
  Keys(std::int64_t heads, std::int64_t tokens, std::int64_t dim, bool head_major, std::int64_t page)
      : heads_(heads), dim_(dim), head_major_(head_major), page_(page > 0 ? page : tokens) {
    values_.resize(static_cast<std::size_t>(heads * tokens * dim));
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 97) * 0.01f;
    // Pages in an order that no prefetcher foresees.
    const std::int64_t pages = tokens / page_;
    for (std::int64_t i = 0; i < pages; ++i) order_.push_back(i * 7919 % pages);
  }

  float scores(const std::vector<float>& query) const {
    float most = 0;
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (const std::int64_t page : order_) {
        const float* base = values_.data() + page * page_ * heads_ * dim_;
        for (std::int64_t t = 0; t < page_; ++t) {
          const float* key = base + (head_major_ ? (head * page_ + t) * dim_ : (t * heads_ + head) * dim_);
          float sum = 0;
          for (std::int64_t d = 0; d < dim_; ++d) sum += key[d] * query[static_cast<std::size_t>(d)];
          most = std::max(most, sum);
        }
      }
    }
    return most;
  }
  double bytes() const { return static_cast<double>(values_.size() * sizeof(float)); }

 private:
  std::int64_t heads_, dim_;
  bool head_major_;
  std::int64_t page_;
  std::vector<float> values_;
  std::vector<std::int64_t> order_;
};

Result<void> orders(Workbench& bench, Outcome& outcome) {
  QUIRE_CHECK_OK(bench.at(0, "orders and pages"));
  const std::int64_t heads = std::max(bench.info().kv_heads, 2), dim = bench.info().head_dim;
  const std::int64_t tokens = bench.choose<std::int64_t>(1 << 15, 1 << 13);
  struct Shape {
    std::string name;
    bool head_major;
    std::int64_t page;
  };
  std::vector<Shape> shapes{{"head-major", true, 0}, {"position-major", false, 0}};
  for (const std::int64_t page : {8, 16, 32, 64}) shapes.push_back({fmt::format("pages of {}", page), true, page});
  const std::vector<float> query(static_cast<std::size_t>(dim), 0.5f);
  Series series{"keys read", Style::bars, {}};
  std::vector<std::string> names;
  std::vector<double> speeds;
  float kept = 0;  // so that no loop is left out
  for (const Shape& shape : shapes) {
    const Keys keys(heads, tokens, dim, shape.head_major, shape.page);
    std::vector<double> gbps;
    kept += keys.scores(query);
    for (int i = 0; i < bench.choose(15, 7); ++i) {
      const auto start = Clock::now();
      kept += keys.scores(query);
      gbps.push_back(keys.bytes() / milliseconds_since(start) * 1e-6);
    }
    series.points.push_back(median_point(static_cast<double>(names.size()), gbps));
    names.push_back(shape.name);
    speeds.push_back(series.points.back().y);
    outcome.figure(fmt::format("gbps_{}", shape.name), speeds.back());
  }
  if (kept < 0) return fail(Errc::unsupported, "sums of positive numbers are negative: a bug");
  outcome.find(fmt::format(
      "A plain loop over one head's keys reads {:.1f} GB/s where they lie side by side (head-major) and {:.1f} where "
      "the heads "
      "take turns (position-major); in scattered pages {:.1f} with 8 tokens each, {:.1f} with 32 and {:.1f} with 64.",
      speeds[0], speeds[1], speeds[2], speeds[4], speeds[5]));
  outcome.charts.push_back({"Reading keys in different orders",
                            {"order", "", false},
                            {"speed", "GB/s", false},
                            names,
                            {std::move(series)},
                            fmt::format("One thread, f32, {} heads of {}, {} tokens, a plain loop and not the engine's "
                                        "kernel. Medians, bars from the 10th "
                                        "to the 90th percentile.",
                                        heads, dim, tokens)});
  return {};
}

// What torch.cat does: a new buffer and a copy of everything, for each token.
Result<void> growing(Workbench& bench, Outcome& outcome) {
  QUIRE_CHECK_OK(bench.at(0.25, "growing by copying"));
  const std::int64_t row =
      2LL * bench.info().layers * bench.info().kv_heads * bench.info().head_dim;  // values of a token
  const auto lengths = bench.choose<std::vector<std::int64_t>>({128, 512, 2048, 8192}, {128, 512, 2048});
  Series copied{"concatenating", Style::line, {}}, written{"preallocated", Style::line, {}};
  for (const std::int64_t length : lengths) {
    std::vector<double> copy_us, write_us;
    std::vector<std::uint16_t> cache(static_cast<std::size_t>(length * row), 1),
        in_place(static_cast<std::size_t>((length + 1) * row), 1);
    const std::vector<std::uint16_t> token(static_cast<std::size_t>(row), 2);
    for (int i = 0; i < bench.choose(9, 5); ++i) {
      auto start = Clock::now();
      std::vector<std::uint16_t> next;
      next.reserve(cache.size() + token.size());
      next.insert(next.end(), cache.begin(), cache.end());
      next.insert(next.end(), token.begin(), token.end());
      copy_us.push_back(1000 * milliseconds_since(start));
      start = Clock::now();
      std::memcpy(in_place.data() + static_cast<std::ptrdiff_t>(length * row), token.data(),
                  token.size() * sizeof(token[0]));
      write_us.push_back(std::max(1000 * milliseconds_since(start), 0.01));
      if (next.back() != in_place.back()) return fail(Errc::unsupported, "the two ways of growing differ: a bug");
    }
    copied.points.push_back(median_point(static_cast<double>(length), copy_us));
    written.points.push_back(median_point(static_cast<double>(length), write_us));
  }
  outcome.find(
      fmt::format("Adding one token at {} costs {:.0f} µs where the cache is concatenated and {:.1f} µs where there is "
                  "room for it: "
                  "concatenating moves everything that is there.",
                  lengths.back(), copied.points.back().y, written.points.back().y));
  outcome.figure("concatenate_us", copied.points.back().y);
  outcome.figure("preallocated_us", written.points.back().y);
  outcome.charts.push_back({"Adding one token",
                            {"tokens in the cache", "", true},
                            {"time", "µs", true},
                            {},
                            {std::move(copied), std::move(written)},
                            "All layers' keys and values in 16 bits, moved and not computed. Medians, bars from the "
                            "10th to the 90th percentile."});
  return {};
}

// Only the last token of a prompt gets logits, as in a session.
Result<double> scratch_mib(const Workbench& bench, const Tokens& prompt, std::int64_t chunk) {
  const std::int64_t length = std::ssize(prompt);
  QUIRE_TRY(const std::unique_ptr<Inside> inside, Inside::create(bench.model(), length, bench.threads()));
  for (std::int64_t done = 0; done < length; done += chunk) {
    const std::int64_t count = std::min(chunk, length - done);
    const auto part = std::span(prompt).subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(count));
    QUIRE_CHECK_OK(inside->compute(part, done + count == length ? count - 1 : count));
  }
  return static_cast<double>(inside->scratch_bytes()) / (1 << 20);
}

Result<void> chunks(Workbench& bench, Outcome& outcome) {
  const std::int64_t length = std::min<std::int64_t>(bench.choose(512, 256), bench.info().context);
  const Tokens prompt = bench.prompt(0, length);
  Series speed{"prompt", Style::line, {}}, scratch{"activations", Style::line, {}};
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {1, 8, 32, 128, 512}) {
    if (size <= length) sizes.push_back(size);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    QUIRE_CHECK_OK(bench.at(0.4 + 0.6 * static_cast<double>(i) / static_cast<double>(sizes.size()),
                            fmt::format("chunks of {}", sizes[i])));
    SessionOptions options;
    options.context = bench.info().context;
    options.threads = bench.threads();
    options.kernels = kLabKernels;
    options.prefill_chunk = sizes[i];
    QUIRE_TRY(Session session, Session::create(bench.model(), options));
    std::vector<double> per_second;
    for (int r = 0; r < bench.choose(3, 2); ++r) {
      session.reset();
      const auto start = Clock::now();
      QUIRE_CHECK_OK(session.prefill(prompt));
      per_second.push_back(static_cast<double>(length) / milliseconds_since(start) * 1000);
    }
    speed.points.push_back(median_point(static_cast<double>(sizes[i]), per_second));
    QUIRE_TRY(const double mib, scratch_mib(bench, prompt, sizes[i]));
    scratch.points.push_back(exact_point(static_cast<double>(sizes[i]), mib));
    outcome.figure(fmt::format("scratch_mib_{}", sizes[i]), mib);
  }
  outcome.find(
      fmt::format("A prompt of {} tokens goes at {:.0f} tokens a second token by token and at {:.0f} in chunks of {}: "
                  "{:.1f} times, since "
                  "weights are read once for all of them.",
                  length, speed.points.front().y, speed.points.back().y, sizes.back(),
                  speed.points.back().y / speed.points.front().y));
  outcome.find(fmt::format(
      "Computing {} tokens at once needs {:.1f} MiB for activations, one by one {:.2f} MiB: past the chunk at which "
      "speed stops growing, memory goes on growing for nothing.",
      sizes.back(), scratch.points.back().y, scratch.points.front().y));
  outcome.figure("token_by_token_per_second", speed.points.front().y);
  outcome.figure("at_once_per_second", speed.points.back().y);
  const Axis chunk{"computed at once", "tokens", true};
  outcome.charts.push_back(
      {"A prompt in chunks",
       chunk,
       {"speed", "tokens per second", true},
       {},
       {std::move(speed)},
       fmt::format("A prompt of {} tokens. Medians, bars from the 10th to the 90th percentile.", length)});
  outcome.charts.push_back({"Scratch memory of a chunk",
                            chunk,
                            {"memory", "MiB", true},
                            {},
                            {std::move(scratch)},
                            "What a pass through the model holds beside weights and cache. Counted: no error bars."});
  return {};
}

Result<Outcome> run(Workbench& bench) {
  Outcome outcome;
  QUIRE_CHECK_OK(orders(bench, outcome));
  QUIRE_CHECK_OK(growing(bench, outcome));
  QUIRE_CHECK_OK(chunks(bench, outcome));
  return outcome;
}

}  // namespace

const Experiment kLayout{"layout",
                         "Layout: how it lies and how it is filled",
                         "What do the order in memory, the page size, copying and the chunk of a prompt matter?",
                         15,
                         3,
                         run};

}  // namespace quire::lab
