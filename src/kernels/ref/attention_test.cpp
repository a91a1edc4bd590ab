#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/cpu/kernel_test_support.h"
#include "kernels/ops.h"

namespace quire {
namespace {

using Floats = std::vector<float>;
using testing_support::random_floats;

struct Shape {
  KvFormat key_format = KvFormat::f16, value_format = KvFormat::f16;
  std::int64_t q_heads = 4, kv_heads = 2, key_dim = 20, value_dim = 24;
  bool latent = false;
  KvVisibility visible{};
  std::int64_t sink_pages = 0, recent_pages = 0;
  std::int64_t kept = 0, first_position = 0;
  float softcap = 0;

  std::int64_t query_dim() const { return key_dim + (latent ? value_dim : 0); }
  bool lossless() const { return info(key_format).by_token && info(value_format).by_token; }
};

constexpr std::int64_t kLayers = 2, kLayer = 1;

// Strides with gaps that hold no tile, so that a wrong one is seen.
KvPageLayout make_layout(const Shape& s, KvFormat key_format, KvFormat value_format) {
  KvPageLayout layout{};
  const std::int64_t key_bytes = info(key_format).tile_bytes(KvOrder::lanes, s.key_dim) + 16;
  const std::int64_t value_bytes = info(value_format).tile_bytes(KvOrder::rows, s.value_dim) + 48;
  const std::int64_t layer = s.kv_heads * (key_bytes + value_bytes) + 32;
  layout.keys = {key_format, KvOrder::lanes, s.key_dim, 64, layer, key_bytes};
  layout.values = {value_format, KvOrder::rows, s.value_dim, 64 + s.kv_heads * key_bytes, layer, value_bytes};
  layout.bytes = 64 + kLayers * layer;
  layout.latent = s.latent;
  return layout;
}

KvGroupLayout make_group(const Shape& s) {
  return {kLayers,
          s.kv_heads,
          make_layout(s, open_format(s.key_format), open_format(s.value_format)),
          make_layout(s, s.key_format, s.value_format),
          s.lossless(),
          s.sink_pages,
          s.recent_pages,
          s.visible};
}

Floats through(const KvStreamLayout& stream, const Floats& rows) {
  Floats result(rows.size());
  std::vector<std::byte> tile(static_cast<std::size_t>(info(stream.format).tile_bytes(stream.order, stream.dim)));
  info(stream.format).encode(stream.order, rows.data(), stream.dim, tile.data());
  info(stream.format).decode(stream.order, tile.data(), stream.dim, result.data());
  return result;
}

// A sequence, its pages filled by the operations under test, and what it should hold by plain thinking.
class Sequence {
 public:
  Sequence(const Shape& s, std::int64_t length, unsigned seed, unsigned char poison = 0xFF)
      : group(make_group(s)),
        keys(random_floats(length * s.kv_heads * s.key_dim, seed)),
        values(random_floats(length * s.kv_heads * s.value_dim, seed + 1)),
        q(random_floats(length * s.q_heads * s.query_dim(), seed + 2)),
        q_sinks(random_floats(length * s.q_heads * s.query_dim(), seed + 3)),
        shape_(s),
        length_(length),
        poison_(poison) {
    for (std::int64_t i = 0; i * 32 < length; ++i) {
      for (std::int64_t h = 0; h < s.kv_heads; ++h) {
        held_keys_.push_back(hold(group.wide.keys, group.packed.keys, keys, i, h));
        held_values_.push_back(hold(group.wide.values, group.packed.values, values, i, h));
      }
      if (i * 32 < s.first_position) {
        entries_.emplace_back();
        continue;
      }
      const bool sealed = !s.lossless() && i >= s.sink_pages && i * 32 + 32 <= length;
      std::byte* packed = sealed ? new_page(group.packed) : nullptr;
      entries_.push_back({new_page(group.wide), packed});
    }
    for (std::int64_t start = 0; start < s.kept; start += 32) add_kept_page(start, seed + 10);
  }

  KvTable table() const { return {entries_.data(), kept_.data(), shape_.kept, shape_.first_position, shape_.visible}; }

  // Forgets what no query from position `next` on may read.
  void release(std::int64_t next) {
    for (std::int64_t i = 0; i < next / 32; ++i) {
      KvTableEntry& entry = entries_[static_cast<std::size_t>(i)];
      if (!group.reads_wide(i, next / 32)) entry.wide = nullptr;
      if (i * 32 >= shape_.visible.sinks && i * 32 + 31 < shape_.visible.first(next)) entry = {};
    }
  }

  // The query at `position` should see pages wide: its own, and where the rules say so.
  bool is_packed(std::int64_t p, std::int64_t position) const {
    return position / 32 - p / 32 > shape_.recent_pages && p / 32 >= shape_.sink_pages;
  }
  std::vector<double> key(std::int64_t p, std::int64_t head, std::int64_t position) const {
    std::vector<double> result;
    if (shape_.latent) result = value(p, head, position);
    append_row(result, held_rows(held_keys_, p, head, position), p, shape_.key_dim);
    return result;
  }
  std::vector<double> value(std::int64_t p, std::int64_t head, std::int64_t position) const {
    std::vector<double> result;
    append_row(result, held_rows(held_values_, p, head, position), p, shape_.value_dim);
    return result;
  }
  std::vector<double> kept_key(std::int64_t i, std::int64_t head) const {
    std::vector<double> result;
    if (shape_.latent) result = kept_value(i, head);
    append_row(result, kept_keys_[static_cast<std::size_t>(i / 32 * shape_.kv_heads + head)], i, shape_.key_dim);
    return result;
  }
  std::vector<double> kept_value(std::int64_t i, std::int64_t head) const {
    std::vector<double> result;
    append_row(result, kept_values_[static_cast<std::size_t>(i / 32 * shape_.kv_heads + head)], i, shape_.value_dim);
    return result;
  }

  KvGroupLayout group;
  Floats keys, values, q, q_sinks;

 private:
  std::byte* new_page(const KvPageLayout& layout) {
    pages_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(layout.bytes)));
    std::memset(pages_.back().get(), poison_, static_cast<std::size_t>(layout.bytes));
    return pages_.back().get();
  }
  void add_kept_page(std::int64_t start, unsigned seed) {
    const KvPageLayout& layout = shape_.lossless() ? group.wide : group.packed;
    std::byte* page = new_page(layout);
    for (std::int64_t h = 0; h < shape_.kv_heads; ++h) {
      const auto fill = [&](const KvStreamLayout& stream, std::vector<Floats>& held, unsigned number) {
        Floats rows = random_floats(32 * stream.dim, seed + number + 100 * static_cast<unsigned>(start + h));
        // Slots that are not used: anything, but a scale that they share with others must stand.
        const bool shared = stream.format == KvFormat::k4 || stream.format == KvFormat::k2;
        for (std::int64_t i = (shape_.kept - start) * stream.dim; i < 32 * stream.dim; ++i) {
          rows[static_cast<std::size_t>(i)] = shared ? 0.f : NAN;
        }
        info(stream.format).encode(stream.order, rows.data(), stream.dim, stream.tile(page, kLayer, h));
        held.push_back(through(stream, rows));
      };
      fill(layout.keys, kept_keys_, 1);
      fill(layout.values, kept_values_, 2);
    }
    kept_.push_back(page);
  }
  // One head of one page: [32, dim], zero beyond the length.
  struct Held {
    Floats wide, packed;
  };
  Held hold(const KvStreamLayout& wide, const KvStreamLayout& packed, const Floats& data, std::int64_t page,
            std::int64_t head) const {
    Floats rows(static_cast<std::size_t>(32 * wide.dim));
    for (std::int64_t t = page * 32; t < std::min(length_, page * 32 + 32); ++t) {
      std::copy_n(data.begin() + (t * shape_.kv_heads + head) * wide.dim, wide.dim, rows.begin() + t % 32 * wide.dim);
    }
    Floats rounded = through(wide, rows);
    return {rounded, through(packed, rounded)};
  }
  const Floats& held_rows(const std::vector<Held>& held, std::int64_t p, std::int64_t head,
                          std::int64_t position) const {
    const Held& rows = held[static_cast<std::size_t>(p / 32 * shape_.kv_heads + head)];
    return is_packed(p, position) ? rows.packed : rows.wide;
  }
  static void append_row(std::vector<double>& to, const Floats& rows, std::int64_t token, std::int64_t dim) {
    to.insert(to.end(), rows.begin() + token % 32 * dim, rows.begin() + (token % 32 + 1) * dim);
  }

  Shape shape_;
  std::int64_t length_;
  unsigned char poison_;
  std::vector<std::unique_ptr<std::byte[]>> pages_;
  std::vector<KvTableEntry> entries_;
  std::vector<const std::byte*> kept_;
  std::vector<Floats> kept_keys_, kept_values_;  // by page and head: [32, dim]
  std::vector<Held> held_keys_, held_values_;    // by page and head
};

struct Outputs {
  Floats out, log_sum_exp;
};

constexpr float kScale = 0.3f;

// Appends, encodes and attends from first_position on, in chunks; forgets what may be forgotten.
Outputs run(const Shape& s, Sequence& sequence, const std::vector<std::int64_t>& chunks) {
  const Ops& ops = ref_ops();
  ThreadPool pool(1);
  Outputs result;
  std::int64_t position = s.first_position;
  for (const std::int64_t rows : chunks) {
    const KvRows at{0, rows, position, sequence.table()};
    const KvTarget target{&sequence.group, kLayer, {&at, 1}};
    ops.append({&sequence.keys[static_cast<std::size_t>(position * s.kv_heads * s.key_dim)],
                &sequence.values[static_cast<std::size_t>(position * s.kv_heads * s.value_dim)], target},
               pool);
    ops.encode({target}, pool);
    Floats out(static_cast<std::size_t>(rows * s.q_heads * s.value_dim), NAN);
    Floats sums(static_cast<std::size_t>(rows * s.q_heads), NAN);
    const auto from = static_cast<std::size_t>(position * s.q_heads * s.query_dim());
    const float* q_sinks = s.visible.sinks > 0 ? &sequence.q_sinks[from] : nullptr;
    ops.attention({&sequence.q[from], q_sinks, out.data(), target, s.q_heads, kScale, s.softcap, sums.data()}, pool);
    result.out.insert(result.out.end(), out.begin(), out.end());
    result.log_sum_exp.insert(result.log_sum_exp.end(), sums.begin(), sums.end());
    position += rows;
    sequence.release(position);
  }
  return result;
}

// Keys of q4 meet queries of whole numbers up to 63, a group of 32 dimensions at a time.
double dot(const float* q, const std::vector<double>& key, bool rounded) {
  double sum = 0;
  for (std::size_t start = 0; start < key.size(); start += 32) {
    const std::size_t end = std::min(key.size(), start + 32);
    double unit = 0;
    for (std::size_t d = start; d < end; ++d) unit = std::max(unit, std::fabs(static_cast<double>(q[d])) / 63);
    for (std::size_t d = start; d < end; ++d) sum += (rounded ? std::round(q[d] / unit) * unit : q[d]) * key[d];
  }
  return sum;
}

void expect_right(const Shape& s, const std::vector<std::int64_t>& chunks) {
  std::int64_t length = s.first_position;
  for (const std::int64_t rows : chunks) length += rows;
  Sequence sequence(s, length, 1);
  const Outputs outputs = run(s, sequence, chunks);

  for (std::int64_t position = s.first_position; position < length; ++position) {
    for (std::int64_t h = 0; h < s.q_heads; ++h) {
      const std::int64_t kv_head = h * s.kv_heads / s.q_heads;
      const auto q_at = static_cast<std::size_t>((position * s.q_heads + h) * s.query_dim());
      double total = 0;
      std::vector<double> expected(static_cast<std::size_t>(s.value_dim));
      const auto add = [&](const float* q, bool packed, const std::vector<double>& key,
                           const std::vector<double>& value) {
        double score = dot(q, key, packed && s.key_format == KvFormat::q4) * static_cast<double>(kScale);
        if (s.softcap > 0) score = s.softcap * std::tanh(score / s.softcap);
        total += std::exp(score);
        for (std::size_t d = 0; d < value.size(); ++d) expected[d] += std::exp(score) * value[d];
      };
      for (std::int64_t i = 0; i < s.kept; ++i) {
        add(&sequence.q[q_at], true, sequence.kept_key(i, kv_head), sequence.kept_value(i, kv_head));
      }
      for (std::int64_t p = s.first_position; p <= position; ++p) {
        const bool all_seen = position < s.visible.sinks + s.visible.window;
        const bool sink = p < s.visible.sinks && !all_seen;
        const bool in_window = s.visible.window == 0 || position - p < s.visible.window;
        if (!sink && !in_window && !all_seen) continue;
        const Floats& q = sink ? sequence.q_sinks : sequence.q;
        add(&q[q_at], sequence.is_packed(p, position), sequence.key(p, kv_head, position),
            sequence.value(p, kv_head, position));
      }
      const auto row = static_cast<std::size_t>((position - s.first_position) * s.q_heads + h);
      ASSERT_NEAR(outputs.log_sum_exp[row], std::log(total), 1e-4) << "position " << position << " head " << h;
      for (std::size_t d = 0; d < expected.size(); ++d) {
        ASSERT_NEAR(outputs.out[row * expected.size() + d], expected[d] / total, 1e-4)
            << "position " << position << " head " << h << " value " << d;
      }
    }
  }
}

TEST(RefAttention, Full) {
  expect_right({}, {1, 3, 29, 40});
  expect_right({.key_format = KvFormat::f32, .value_format = KvFormat::bf16, .softcap = 2.f}, {33});
}

TEST(RefAttention, OwnPageWideAndEarlierPagesPacked) {
  for (const KvFormatInfo& format : kv_formats()) {
    SCOPED_TRACE(format.name);
    expect_right({.key_format = format.format, .value_format = KvFormat::f16}, {20, 50, 1});
    expect_right({.key_format = KvFormat::f16, .value_format = format.format}, {32, 32, 7});
  }
}

TEST(RefAttention, SinkAndRecentPagesStayWide) {
  const Shape shape{.key_format = KvFormat::q2, .value_format = KvFormat::k2, .sink_pages = 1, .recent_pages = 1};
  expect_right(shape, {100, 61});
}

TEST(RefAttention, WindowAndSinks) {
  expect_right({.visible = {0, 10}}, {50, 1, 1, 40});
  expect_right({.key_format = KvFormat::q4, .value_format = KvFormat::q4, .visible = {0, 40}}, {64, 1, 40});
  expect_right({.visible = {4, 33}, .sink_pages = 1}, {2, 60, 70});
  expect_right({.key_format = KvFormat::q4, .value_format = KvFormat::k4, .visible = {40, 20}, .sink_pages = 1},
               {110, 3});
}

TEST(RefAttention, KeptTokens) {
  expect_right({.kept = 40, .first_position = 64}, {10, 40});
  expect_right({.key_format = KvFormat::q4, .value_format = KvFormat::q5, .kept = 33, .first_position = 32}, {50});
  expect_right({.key_format = KvFormat::k4, .value_format = KvFormat::k2, .kept = 5, .first_position = 32}, {1, 40});
  expect_right({.kept = 5}, {3});
}

TEST(RefAttention, Latent) {
  const Shape shape{.q_heads = 3, .kv_heads = 1, .key_dim = 8, .value_dim = 40, .latent = true};
  expect_right(shape, {40, 2});
  Shape packed = shape;
  packed.key_format = KvFormat::f16;
  packed.value_format = KvFormat::q8;
  packed.kept = 7;
  packed.first_position = 32;
  expect_right(packed, {40, 2});
}

TEST(RefAttention, ChunksDoNotMatter) {
  const Shape shape{.key_format = KvFormat::q4, .value_format = KvFormat::k4, .recent_pages = 1};
  Sequence whole(shape, 100, 5), parts(shape, 100, 5);
  EXPECT_EQ(run(shape, whole, {100}).out, run(shape, parts, {1, 30, 1, 1, 60, 7}).out);
}

TEST(RefAttention, WhatLiesBeyondTheEndDoesNotMatter) {
  for (const KvFormat format : {KvFormat::f32, KvFormat::f16, KvFormat::q5, KvFormat::k2}) {
    const Shape shape{.key_format = format, .value_format = format};
    Sequence nan(shape, 70, 6, 0xFF), zero(shape, 70, 6, 0x00);
    EXPECT_EQ(run(shape, nan, {40, 30}).out, run(shape, zero, {40, 30}).out);
  }
}

TEST(RefAttention, SequencesOfABatchAreAlone) {
  const Shape shape{.key_format = KvFormat::q8, .value_format = KvFormat::q8};
  Sequence a(shape, 40, 7), b(shape, 34, 8);
  const Floats alone_a = run(shape, a, {38, 2}).out, alone_b = run(shape, b, {33, 1}).out;

  // The last two rows of a and the last of b, once more, in one call and in another order.
  const auto join = [](const Floats& x, std::size_t x_rows, const Floats& y, std::size_t y_rows, std::size_t width) {
    Floats both(x.end() - static_cast<std::ptrdiff_t>(x_rows * width), x.end());
    both.insert(both.end(), y.end() - static_cast<std::ptrdiff_t>(y_rows * width), y.end());
    return both;
  };
  const Floats q = join(b.q, 1, a.q, 2, 4 * 20), keys = join(b.keys, 1, a.keys, 2, 2 * 20);
  const Floats values = join(b.values, 1, a.values, 2, 2 * 24), expected = join(alone_b, 1, alone_a, 2, 4 * 24);
  const KvRows both[] = {{1, 2, 38, a.table()}, {0, 1, 33, b.table()}};
  const KvTarget target{&a.group, kLayer, both};
  ThreadPool pool(1);
  Floats out(expected.size(), NAN);
  ref_ops().append({keys.data(), values.data(), target}, pool);
  ref_ops().encode({target}, pool);
  ref_ops().attention({q.data(), nullptr, out.data(), target, 4, kScale, 0, nullptr}, pool);
  EXPECT_EQ(out, expected);
}

TEST(RefScore, SumsToOneForEveryRowAndHead) {
  for (const std::int64_t kept : {0, 40}) {
    const Shape s{.key_format = KvFormat::q8,
                  .value_format = KvFormat::f16,
                  .kept = kept,
                  .first_position = kept ? 64 : 0,
                  .softcap = 3.f};
    const std::int64_t length = s.first_position + 50;
    Sequence sequence(s, length, 9);
    const Outputs outputs = run(s, sequence, {50});

    const std::int64_t rows = 12, first = length - rows, slots = kept + 50;
    const KvRows at{0, rows, first, sequence.table()};
    Floats sums(static_cast<std::size_t>(s.kv_heads * slots), 1.f);  // it adds
    ThreadPool pool(1);
    ref_ops().score({&sequence.q[static_cast<std::size_t>(first * s.q_heads * s.query_dim())],
                     &outputs.log_sum_exp[static_cast<std::size_t>((first - s.first_position) * s.q_heads)],
                     {&sequence.group, kLayer, {&at, 1}},
                     s.q_heads,
                     kScale,
                     s.softcap,
                     sums.data()},
                    pool);
    for (std::int64_t head = 0; head < s.kv_heads; ++head) {
      double total = 0;
      for (std::int64_t i = 0; i < slots; ++i) total += sums[static_cast<std::size_t>(head * slots + i)] - 1.f;
      EXPECT_NEAR(total, 12 * 2, 1e-3);  // rows x query heads of a KV head
      // The last token is seen by the last row alone: two query heads.
      double last = 0;
      for (std::int64_t h = head * 2; h < head * 2 + 2; ++h) {
        const std::int64_t row = (length - 1) * s.q_heads + h;
        const double score = dot(&sequence.q[static_cast<std::size_t>(row * s.query_dim())],
                                 sequence.key(length - 1, head, length - 1), false) *
                             static_cast<double>(kScale);
        const auto lse = static_cast<std::size_t>((length - 1 - s.first_position) * s.q_heads + h);
        last += std::exp(3 * std::tanh(score / 3) - static_cast<double>(outputs.log_sum_exp[lse]));
      }
      EXPECT_NEAR(sums[static_cast<std::size_t>(head * slots + slots - 1)] - 1.f, last, 1e-4);
    }
  }
}

}  // namespace
}  // namespace quire
