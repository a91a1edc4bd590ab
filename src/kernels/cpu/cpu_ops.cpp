// The operations on a CPU: what is shared between threads, and how the work is cut. The inner
// loops come from a table chosen by instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cpu/attention_merge.h"
#include "kernels/cpu/isa_kernels.h"
#include "kernels/ops.h"

namespace quire {
namespace {

// Memory that grows to the largest request and stays: no allocation per token once warm.
class Scratch {
 public:
  template <class T>
  T* get(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > storage_.size()) storage_.resize(bytes + bytes / 4);
    return reinterpret_cast<T*>(storage_.data());
  }

 private:
  std::vector<std::byte> storage_;  // aligned as operator new aligns; kernels need no more
};

bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

// --- matmul ---------------------------------------------------------------------------------

// Weight rows per work item. 32 unpacked rows of a 2,048-wide matrix take 64 KiB: they stay in
// the second-level cache while every activation row passes over them.
constexpr std::int64_t kItemRows = 32;
// Activation rows per pass over an item, so that both sides stay in the second-level cache.
constexpr std::int64_t kPassRows = 64;

struct MatmulScratch {
  Scratch q, scale, sums;        // activations, one per calling thread
  Scratch wq, wscale, wmin, wf;  // weights, one per working thread
};
thread_local MatmulScratch matmul_scratch;

template <const IsaKernels& kIsa>
QuantizedRows quantize(const MatmulParams& p, ThreadPool& pool) {
  MatmulScratch& scratch = matmul_scratch;
  const QuantizedRows x{scratch.q.get<std::int8_t>(p.rows * p.cols),
                        scratch.scale.get<float>(p.rows * (p.cols / kBlock)),
                        scratch.sums.get<float>(p.rows * padded_halves(p.cols)), p.cols};
  pool.for_each(p.rows, [&](std::int64_t r) { kIsa.quantize_row(p.x + r * p.cols, r, x); });
  return x;
}

// Rows [begin, end) of one target for all activation rows. The last strip of a matrix may be short:
// it is computed whole from repeated rows into a side buffer, so that one kernel serves all.
template <const IsaKernels& kIsa>
void matmul_item(const MatmulParams& p, const MatmulTarget& target, const QuantizedRows& x, std::int64_t begin,
                 std::int64_t end) {
  const WeightMatrix& w = *target.weights;
  MatmulScratch& scratch = matmul_scratch;
  const std::int64_t strips = (end - begin + kStripRows - 1) / kStripRows, rows = strips * kStripRows;
  const bool floats = is_float(w.type);
  const std::int64_t halves = padded_halves(p.cols);
  UnpackedRows unpacked{};
  float* weights = nullptr;
  if (floats) {
    weights = scratch.wf.get<float>(rows * p.cols);
  } else {
    unpacked = {scratch.wq.get<std::uint8_t>(rows * p.cols), scratch.wscale.get<float>(rows * halves),
                scratch.wmin.get<float>(rows * halves), p.cols};
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* source = w.row(std::min(begin + r, end - 1));
    if (floats) {
      kIsa.unpack_row_f32(w.type, source, p.cols, weights + r * p.cols);
    } else {
      kIsa.unpack_row(w.type, source, r, unpacked);
    }
  }
  for (std::int64_t pass = 0; pass < p.rows; pass += kPassRows) {
    const std::int64_t pass_end = std::min(pass + kPassRows, p.rows);
    for (std::int64_t s = 0; s < rows; s += kStripRows) {
      const bool whole = begin + s + kStripRows <= end;
      float side[kPassRows * kStripRows];
      float* out = whole ? target.out + pass * w.rows + begin + s : side;
      const std::int64_t stride = whole ? w.rows : kStripRows;
      if (floats) {
        kIsa.dot_strip_f32(weights + s * p.cols, p.x, p.cols, pass, pass_end, out, stride);
      } else {
        kIsa.dot_strip(w.type, unpacked, s, x, pass, pass_end, out, stride);
      }
      const std::int64_t width = std::min(kStripRows, end - begin - s);
      for (std::int64_t r = pass; r < pass_end; ++r) {
        for (std::int64_t n = 0; n < width; ++n) {
          const float bias = target.bias != nullptr ? target.bias[begin + s + n] : 0.f;
          if (!whole) target.out[r * w.rows + begin + s + n] = side[(r - pass) * kStripRows + n] + bias;
          if (whole && target.bias != nullptr) target.out[r * w.rows + begin + s + n] += bias;
        }
      }
    }
  }
}

template <const IsaKernels& kIsa>
void matmul(const MatmulParams& p, ThreadPool& pool) {
  QuantizedRows x{};
  const bool quantized =
      std::ranges::any_of(p.targets, [](const MatmulTarget& t) { return !is_float(t.weights->type); });
  if (quantized) x = quantize<kIsa>(p, pool);

  std::int64_t items = 0;
  for (const MatmulTarget& t : p.targets) items += (t.weights->rows + kItemRows - 1) / kItemRows;
  pool.for_each(items, [&](std::int64_t item) {
    for (const MatmulTarget& t : p.targets) {
      const std::int64_t count = (t.weights->rows + kItemRows - 1) / kItemRows;
      if (item < count) {
        const std::int64_t begin = item * kItemRows;
        matmul_item<kIsa>(p, t, x, begin, std::min(begin + kItemRows, t.weights->rows));
        return;
      }
      item -= count;
    }
  });
}

// --- attention ------------------------------------------------------------------------------

// Segments start at multiples of this position, whatever is computed: the partial results and the
// order of their merging are then the same for prefill and decode, for any number of threads.
// 512 tokens are 16 tiles: long enough that a merge costs nothing, short enough to share a
// 2,048-token cache among four threads.
constexpr std::int64_t kSegmentTokens = 512;
// Queries that share one converted tile of keys and values.
constexpr std::int64_t kMaxQueries = 48;

struct AttentionScratch {
  Scratch q, position, tile, part, total;
};
thread_local AttentionScratch attention_scratch;
thread_local Scratch partials_scratch;

// The queries of rows [row, row + rows) that read one KV head, as the kernel wants them.
struct QueryBlock {
  std::int64_t row, rows, kv_head;
};

template <const IsaKernels& kIsa>
class AttentionRun {
 public:
  explicit AttentionRun(const AttentionParams& p)
      : p_(p), group_(p.q_heads / p.kv_heads), padded_((p.head_dim + 7) / 8 * 8) {
    block_rows_ = std::clamp<std::int64_t>(kMaxQueries / group_, 1, 16);
    blocks_ = (p.rows + block_rows_ - 1) / block_rows_;
  }

  void run(ThreadPool& pool) {
    if (blocks_ * p_.kv_heads >= 2 * pool.size()) {
      pool.for_each(blocks_ * p_.kv_heads, [&](std::int64_t i) { whole(block(i)); });
    } else {
      split(pool);
    }
  }

 private:
  QueryBlock block(std::int64_t i) const {
    const std::int64_t row = i / p_.kv_heads * block_rows_;
    return {row, std::min(block_rows_, p_.rows - row), i % p_.kv_heads};
  }
  std::int64_t end(const QueryBlock& b) const { return p_.first_position + b.row + b.rows; }
  std::int64_t first_segment(const QueryBlock& b) const {
    const std::int64_t position = p_.first_position + b.row;
    const std::int64_t first = p_.window > 0 ? std::max<std::int64_t>(0, position - p_.window + 1) : 0;
    return first / kSegmentTokens;
  }
  std::int64_t segments(const QueryBlock& b) const {
    return (end(b) + kSegmentTokens - 1) / kSegmentTokens - first_segment(b);
  }
  std::int64_t part_floats(const QueryBlock& b) const { return b.rows * group_ * (padded_ + 2); }

  // Segment number `segment` of a block into part: [queries, padded] outputs, then maxima, then sums.
  void attend(const QueryBlock& b, std::int64_t segment, float* part) const {
    AttentionScratch& scratch = attention_scratch;
    const std::int64_t queries = b.rows * group_;
    float* q = scratch.q.get<float>(queries * padded_);
    auto* position = scratch.position.get<std::int64_t>(queries);
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t row = b.row + i / group_, head = b.kv_head * group_ + i % group_;
      const float* from = p_.q + (row * p_.q_heads + head) * p_.head_dim;
      for (std::int64_t d = 0; d < padded_; ++d) q[i * padded_ + d] = d < p_.head_dim ? from[d] * p_.scale : 0.f;
      position[i] = p_.first_position + row;
    }
    const std::int64_t begin = (first_segment(b) + segment) * kSegmentTokens;
    KvStream keys = p_.kv.keys, values = p_.kv.values;
    keys.data = keys.at(b.kv_head, 0);
    values.data = values.at(b.kv_head, 0);
    kIsa.attend({q, position, queries, keys, values, begin, std::min(begin + kSegmentTokens, end(b)), p_.head_dim,
                 padded_, p_.window, p_.softcap, scratch.tile.get<float>(attention_tile_floats(padded_)), part,
                 part + queries * padded_, part + queries * (padded_ + 1)});
  }

  void merge(const QueryBlock& b, float* total, const float* part) const {
    const std::int64_t queries = b.rows * group_;
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t max = queries * padded_ + i, sum = max + queries;
      merge_softmax(total + i * padded_, total[max], total[sum], part + i * padded_, part[max], part[sum], padded_);
    }
  }

  void finish(const QueryBlock& b, const float* total) const {
    const std::int64_t queries = b.rows * group_;
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t row = b.row + i / group_, head = b.kv_head * group_ + i % group_;
      float* out = p_.out + (row * p_.q_heads + head) * p_.head_dim;
      const float inverse = 1.f / total[queries * (padded_ + 1) + i];
      for (std::int64_t d = 0; d < p_.head_dim; ++d) out[d] = total[i * padded_ + d] * inverse;
    }
  }

  // One thread takes a block through all its segments.
  void whole(const QueryBlock& b) const {
    float* total = attention_scratch.total.get<float>(part_floats(b));
    attend(b, 0, total);
    for (std::int64_t s = 1; s < segments(b); ++s) {
      float* part = attention_scratch.part.get<float>(part_floats(b));
      attend(b, s, part);
      merge(b, total, part);
    }
    finish(b, total);
  }

  // Few blocks: their segments are shared out, then merged in order.
  void split(ThreadPool& pool) const {
    struct Item {
      QueryBlock block;
      std::int64_t segment;
      std::int64_t part;
    };
    std::vector<Item> items;
    std::int64_t floats = 0;
    const std::int64_t blocks = blocks_ * p_.kv_heads;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const QueryBlock b = block(i);
      for (std::int64_t s = 0; s < segments(b); ++s, floats += part_floats(b)) items.push_back({b, s, floats});
    }
    float* parts = partials_scratch.get<float>(floats);
    pool.for_each(static_cast<std::int64_t>(items.size()), [&](std::int64_t i) {
      const Item& item = items[static_cast<std::size_t>(i)];
      attend(item.block, item.segment, parts + item.part);
    });
    for (std::size_t i = 0; i < items.size();) {
      const QueryBlock b = items[i].block;
      float* total = parts + items[i].part;
      for (++i; i < items.size() && items[i].segment > 0; ++i) merge(b, total, parts + items[i].part);
      finish(b, total);
    }
  }

  const AttentionParams& p_;
  std::int64_t group_, padded_, block_rows_, blocks_;
};

template <const IsaKernels& kIsa>
void attention(const AttentionParams& p, ThreadPool& pool) {
  AttentionRun<kIsa>(p).run(pool);
}

// --- rows -----------------------------------------------------------------------------------

// Small rows are grouped so that a work item is worth handing to a thread.
template <class Body>
void for_rows(std::int64_t rows, std::int64_t row_values, ThreadPool& pool, Body&& body) {
  const std::int64_t per_item = std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, row_values));
  const std::int64_t items = (rows + per_item - 1) / per_item;
  pool.for_each(items, [&](std::int64_t item) {
    for (std::int64_t r = item * per_item; r < std::min(rows, (item + 1) * per_item); ++r) body(r);
  });
}

template <const IsaKernels& kIsa>
void norm(const NormParams& p, ThreadPool& pool) {
  for_rows(p.rows, p.dim, pool, [&](std::int64_t r) {
    const float* x = p.x + r * p.dim;
    float* out = p.out + r * p.dim;
    if (p.kind == NormParams::Kind::rms) {
      kIsa.rms_norm_row(x, p.weight, p.epsilon, p.dim, out);
    } else {
      kIsa.layer_norm_row(x, p.weight, p.bias, p.epsilon, p.dim, out);
    }
  });
}

void rope(const RopeParams& p, ThreadPool& pool) {
  for_rows(p.rows, p.heads * p.head_dim, pool, [&](std::int64_t r) {
    const std::int64_t half = p.rope_dim / 2;
    const float* cos = p.cos + r * half;
    const float* sin = p.sin + r * half;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      float* x = p.x + (r * p.heads + h) * p.head_dim;
      const std::int64_t step = p.adjacent_pairs ? 2 : 1, apart = p.adjacent_pairs ? 1 : half;
      for (std::int64_t i = 0; i < half; ++i) {
        const float a = x[step * i], b = x[step * i + apart];
        x[step * i] = a * cos[i] - b * sin[i];
        x[step * i + apart] = a * sin[i] + b * cos[i];
      }
    }
  });
}

template <const IsaKernels& kIsa>
void append(const AppendParams& p, ThreadPool& pool) {
  for_rows(p.rows, p.kv_heads * p.head_dim, pool, [&](std::int64_t r) {
    for (std::int64_t h = 0; h < p.kv_heads; ++h) {
      const std::int64_t from = (r * p.kv_heads + h) * p.head_dim;
      const std::int64_t position = p.first_position + r;
      kIsa.store_kv(p.keys + from, p.head_dim, p.kv.keys.type, p.kv.keys.at(h, position));
      kIsa.store_kv(p.values + from, p.head_dim, p.kv.values.type, p.kv.values.at(h, position));
    }
  });
}

template <const IsaKernels& kIsa>
void activate(const ActivateParams& p, ThreadPool& pool) {
  const auto row = p.kind == ActivateParams::Kind::silu ? kIsa.silu_row : kIsa.gelu_row;
  for_rows(p.rows, p.dim, pool, [&](std::int64_t r) {
    row(p.gate + r * p.dim, p.up != nullptr ? p.up + r * p.dim : nullptr, p.dim, p.out + r * p.dim);
  });
}

void add(const float* x, float* into, std::int64_t count, ThreadPool& pool) {
  constexpr std::int64_t kPiece = 4096;
  pool.for_each((count + kPiece - 1) / kPiece, [&](std::int64_t piece) {
    const std::int64_t end = std::min(count, (piece + 1) * kPiece);
    for (std::int64_t i = piece * kPiece; i < end; ++i) into[i] += x[i];
  });
}

template <const IsaKernels& kIsa>
constexpr Ops make_ops(std::string_view name) {
  return {name, matmul<kIsa>, norm<kIsa>, rope, append<kIsa>, attention<kIsa>, activate<kIsa>, add};
}

}  // namespace

const Ops& cpu_ops(Isa isa) {
  static constexpr Ops kPortable = make_ops<kPortableKernels>("portable");
  static constexpr Ops kAvx2 = make_ops<kAvx2Kernels>("avx2");
  return isa == Isa::avx2 ? kAvx2 : kPortable;
}

}  // namespace quire
