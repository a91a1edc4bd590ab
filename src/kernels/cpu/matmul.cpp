// Products with weights of any type: how the work is cut among threads and caches.
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/scratch.h"

namespace quire {
namespace {

bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

// Weight rows per work item. 32 unpacked rows of a 2,048-wide matrix take 144 KiB: they stay in
// the second-level cache while every activation row passes over them.
constexpr std::int64_t kItemRows = 32;
// Activation rows per pass over an item, so that both sides stay in the second-level cache.
constexpr std::int64_t kPassRows = 64;

struct MatmulScratch {
  Scratch q, scale, sums;  // activations, one per calling thread
  Scratch wq, wmin, wf;    // weights, one per working thread
};
thread_local MatmulScratch matmul_scratch;

QuantizedRows quantize(const IsaKernels& isa, const MatmulParams& p, ThreadPool& pool) {
  MatmulScratch& scratch = matmul_scratch;
  const QuantizedRows x{scratch.q.get<std::int16_t>(p.rows * p.cols),
                        scratch.scale.get<float>(p.rows * (p.cols / kBlock)),
                        scratch.sums.get<float>(p.rows * padded_halves(p.cols)), p.cols};
  pool.for_each(p.rows, [&](std::int64_t r) { isa.quantize_row(p.x + r * p.cols, r, x); });
  return x;
}

using StripRows = std::array<const std::byte*, kStripRows>;

// The last strip of a matrix may be short: its last row is repeated, so that one kernel serves all.
StripRows strip_rows(const WeightMatrix& w, std::int64_t begin) {
  StripRows rows;
  const std::int64_t bytes = w.row_bytes();
  for (std::int64_t n = 0; n < kStripRows; ++n) {
    rows[static_cast<std::size_t>(n)] = w.data + std::min(begin + n, w.rows - 1) * bytes;
  }
  return rows;
}

// products: [row_end - row_begin, kStripRows]
void store_strip(const MatmulTarget& target, std::int64_t begin, std::int64_t row_begin, std::int64_t row_end,
                 const float* products) {
  const std::int64_t outputs = target.weights->rows, width = std::min(kStripRows, outputs - begin);
  for (std::int64_t r = row_begin; r < row_end; ++r, products += kStripRows) {
    float* out = target.out + r * outputs + begin;
    for (std::int64_t n = 0; n < width; ++n) {
      out[n] = target.bias != nullptr ? products[n] + target.bias[begin + n] : products[n];
    }
  }
}

// For a single activation row: unpacked in registers, weights are not written out and read back.
void multiply_packed(const IsaKernels& isa, const MatmulParams& p, const MatmulTarget& target, const QuantizedRows& x,
                     std::int64_t begin, std::int64_t end) {
  float* min = matmul_scratch.wmin.get<float>(kStripRows * padded_halves(p.cols));
  for (std::int64_t s = begin; s < end; s += kStripRows) {
    float products[kStripRows];
    isa.dot_packed(target.weights->type, strip_rows(*target.weights, s).data(), min, x, products);
    store_strip(target, s, 0, 1, products);
  }
}

void multiply_unpacked(const IsaKernels& isa, const MatmulParams& p, const MatmulTarget& target, const QuantizedRows& x,
                       std::int64_t begin, std::int64_t end) {
  const WeightMatrix& w = *target.weights;
  MatmulScratch& scratch = matmul_scratch;
  const std::int64_t strips = (end - begin + kStripRows - 1) / kStripRows, strip_floats = kStripRows * p.cols;
  float* floats = nullptr;
  std::byte* blocks = nullptr;
  float* min = nullptr;
  if (is_float(w.type)) {
    floats = scratch.wf.get<float>(strips * strip_floats);
  } else {
    blocks = scratch.wq.get<std::byte>(strips * unpacked_strip_bytes(p.cols));
    min = scratch.wmin.get<float>(strips * kStripRows * padded_halves(p.cols));
  }
  const auto unpacked = [&](std::int64_t s) {
    return UnpackedStrip{blocks + s * unpacked_strip_bytes(p.cols), min + s * kStripRows * padded_halves(p.cols)};
  };
  for (std::int64_t s = 0; s < strips; ++s) {
    const StripRows rows = strip_rows(w, begin + s * kStripRows);
    if (floats == nullptr) isa.unpack_strip(w.type, rows.data(), p.cols, unpacked(s));
    for (std::size_t n = 0; floats != nullptr && n < rows.size(); ++n) {
      isa.unpack_row_f32(w.type, rows[n], p.cols, floats + s * strip_floats + static_cast<std::int64_t>(n) * p.cols);
    }
  }
  for (std::int64_t pass = 0; pass < p.rows; pass += kPassRows) {
    const std::int64_t pass_end = std::min(pass + kPassRows, p.rows);
    for (std::int64_t s = 0; s < strips; ++s) {
      float products[kPassRows * kStripRows];
      if (floats != nullptr) {
        isa.dot_strip_f32(floats + s * strip_floats, p.x, p.cols, pass, pass_end, products);
      } else {
        isa.dot_strip(w.type, unpacked(s), x, pass, pass_end, products);
      }
      store_strip(target, begin + s * kStripRows, pass, pass_end, products);
    }
  }
}

}  // namespace

void cpu_matmul(const IsaKernels& isa, const MatmulParams& p, ThreadPool& pool) {
  QuantizedRows x{};
  const bool quantized =
      std::ranges::any_of(p.targets, [](const MatmulTarget& t) { return !is_float(t.weights->type); });
  if (quantized) x = quantize(isa, p, pool);

  std::int64_t items = 0;
  for (const MatmulTarget& t : p.targets) items += (t.weights->rows + kItemRows - 1) / kItemRows;
  pool.for_each(items, [&](std::int64_t item) {
    for (const MatmulTarget& t : p.targets) {
      const std::int64_t count = (t.weights->rows + kItemRows - 1) / kItemRows;
      if (item < count) {
        const std::int64_t begin = item * kItemRows;
        const bool packed = p.rows == 1 && !is_float(t.weights->type);
        const auto multiply = packed ? multiply_packed : multiply_unpacked;
        multiply(isa, p, t, x, begin, std::min(begin + kItemRows, t.weights->rows));
        return;
      }
      item -= count;
    }
  });
}

}  // namespace quire
