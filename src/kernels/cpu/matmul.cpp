// Products with weights of any type: how the work is cut among threads and caches.
#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "kernels/cpu/made_rows.h"
#include "kernels/cpu/scratch.h"

namespace quire {
namespace {

bool is_float(DType type) { return type == DType::f32 || type == DType::f16 || type == DType::bf16; }

// Weight rows per work item: few, so that threads end together (a matrix of 576 rows has 18 items for two of them), and
// so that they and a tile of activations stay in the first-level cache.
constexpr std::int64_t kItemRows = 2 * kPanelRows;
// Activation rows of an item where there are many: a thread then goes on with the rows that it made or rounded itself,
// which lie in its own caches, and they stay in the second-level cache while it goes over the weights.
constexpr std::int64_t kMostItemRows = 256, kFewestItemRows = 64;
// Activation rows per pass over float weights, so that both sides stay in the second-level cache.
constexpr std::int64_t kPassRows = 64;
constexpr std::size_t kMostTargets = 4;

struct MatmulScratch {
  Scratch q, bytes, scale, sums, half_sums, byte_sums;  // activations, one per calling thread
  Scratch starts, steps, step_sums, units;
  Scratch all_made;
  Scratch made;            // rows of a tile, one per working thread
  Scratch panels, floats;  // weights, likewise
};
thread_local MatmulScratch matmul_scratch;

// Rows [first, first + rows) of what is multiplied.
void make_rows(const IsaKernels& isa, const MatmulParams& p, std::int64_t first, std::int64_t rows, float* out) {
  for (std::int64_t r = first; r < first + rows; ++r, out += p.cols) {
    if (p.normed != nullptr) {
      norm_row(isa, *p.normed, r, out);
    } else {
      activate_row(isa, *p.activated, r, out);
    }
  }
}

QuantizedRows quantize(const IsaKernels& isa, ActivationBits bits, const MatmulParams& p, ThreadPool& pool) {
  MatmulScratch& scratch = matmul_scratch;
  const std::int64_t rows = (p.rows + kTileRows - 1) / kTileRows * kTileRows, blocks = rows * (p.cols / kBlock),
                     pairs = rows * ((p.cols / kBlock + 1) / 2);
  const bool bytes = bits == ActivationBits::eight && !p.exact;
  const bool plain = std::ranges::any_of(p.targets, [&](const MatmulTarget& t) {
    return cpu_panel_layout(isa, bits, *t.weights, p.exact) == PanelLayout::plain;
  });
  QuantizedRows x{};
  x.cols = p.cols;
  x.scale = scratch.scale.get<float>(blocks);
  if (plain) {
    x.sums = scratch.sums.get<float>(blocks);
    x.half_sums = scratch.half_sums.get<float>(2 * blocks);
  }
  if (bytes) {
    x.bytes = scratch.bytes.get<std::int8_t>(rows * p.cols);
    if (plain) x.byte_sums = scratch.byte_sums.get<std::int32_t>(2 * blocks);
    x.joined = {scratch.starts.get<std::int32_t>(2 * pairs), scratch.steps.get<std::int32_t>(pairs),
                scratch.step_sums.get<std::int32_t>(pairs), scratch.units.get<float>(rows)};
  } else {
    x.q = scratch.q.get<std::int16_t>(rows * p.cols);
  }
  const auto quantize_tile = bytes ? isa.quantize_tile_bytes : isa.quantize_tile;
  // Rows of a tile lie in the same cache lines: one thread writes them.
  pool.for_each(rows / kTileRows, [&](std::int64_t tile) {
    const std::int64_t first = tile * kTileRows, count = std::min(kTileRows, p.rows - first);
    if (p.x != nullptr) return quantize_tile(p.x + first * p.cols, tile, count, x);
    float* made = matmul_scratch.made.get<float>(kTileRows * p.cols);
    make_rows(isa, p, first, count, made);
    quantize_tile(made, tile, count, x);
  });
  return x;
}

// products: [rows, width]
void store(const MatmulTarget& target, std::int64_t begin, std::int64_t row, std::int64_t rows, const float* products,
           std::int64_t width) {
  const std::int64_t outputs = target.weights->rows, count = std::min(width, outputs - begin);
  for (std::int64_t r = row; r < row + rows; ++r, products += width) {
    float* out = target.out + r * outputs + begin;
    for (std::int64_t n = 0; n < count; ++n) {
      const float product = target.bias != nullptr ? products[n] + target.bias[begin + n] : products[n];
      out[n] = target.add ? out[n] + product : product;
    }
  }
}

std::int64_t panel_bytes(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout) {
  return layout == PanelLayout::joined ? isa.joined->panel_bytes(w.type, w.cols) : isa.panel_bytes(w.type, w.cols);
}

// Rows [begin, end) of the matrix.
void pack_rows(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout, std::int64_t begin, std::int64_t end,
               std::byte* to) {
  const std::int64_t bytes = panel_bytes(isa, w, layout);
  const auto pack = layout == PanelLayout::joined ? isa.joined->pack_panel : isa.pack_panel;
  for (std::int64_t n = begin; n < end; n += kPanelRows, to += bytes) {
    pack(w.type, w.row(n), std::min(kPanelRows, end - n), w.cols, to);
  }
}

// Weights that nobody packed are packed for this product.
const std::byte* panels_of(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout, std::int64_t begin,
                           std::int64_t end) {
  const std::byte* packed = w.panels[static_cast<std::size_t>(layout)];
  const std::int64_t bytes = panel_bytes(isa, w, layout);
  if (packed != nullptr) return packed + begin / kPanelRows * bytes;
  auto* panels = matmul_scratch.panels.get<std::byte>((end - begin + kPanelRows - 1) / kPanelRows * bytes);
  pack_rows(isa, w, layout, begin, end, panels);
  return panels;
}

// The rows from a tile's first one on.
QuantizedRows from_tile(QuantizedRows x, std::int64_t tile) {
  const std::int64_t blocks = x.cols / kBlock, at = tile * blocks * kTileRows,
                     pair = tile * ((blocks + 1) / 2) * kTileRows;
  const auto move = [](auto*& pointer, std::int64_t by) {
    if (pointer != nullptr) pointer += by;
  };
  move(x.q, at * kBlock);
  move(x.bytes, at * kBlock);
  move(x.scale, at);
  move(x.sums, at);
  move(x.half_sums, 2 * at);
  move(x.byte_sums, 2 * at);
  move(x.joined.starts, 2 * pair);
  move(x.joined.steps, pair);
  move(x.joined.sums, pair);
  move(x.joined.unit, tile * kTileRows);
  return x;
}

std::int64_t items_of(const MatmulTarget& t) { return (t.weights->rows + kItemRows - 1) / kItemRows; }

// What one item computes: of so many rows, from a tile's first on, so many outputs.
struct Part {
  std::int64_t row, rows, begin, end;
};

void multiply_quantized(const IsaKernels& isa, const MatmulParams& p, const MatmulTarget& target,
                        const QuantizedRows& x, const Part& part) {
  const WeightMatrix& w = *target.weights;
  const auto bits = x.bytes != nullptr ? ActivationBits::eight : ActivationBits::sixteen;
  const PanelLayout layout = cpu_panel_layout(isa, bits, w, p.exact);
  const auto multiply = layout == PanelLayout::joined ? isa.joined->multiply
                        : x.bytes != nullptr          ? isa.multiply_panels_bytes
                                                      : isa.multiply_panels;
  multiply(w.type,
           {panels_of(isa, w, layout, part.begin, part.end), part.end - part.begin,
            target.bias != nullptr ? target.bias + part.begin : nullptr, target.out + part.row * w.rows + part.begin,
            w.rows, target.add},
           from_tile(x, part.row / kTileRows), part.rows);
}

using StripRows = std::array<const std::byte*, kStripRows>;

// The last strip of a matrix may be short: its last row is repeated, so that one kernel serves all.
StripRows strip_rows(const WeightMatrix& w, std::int64_t begin) {
  StripRows rows;
  for (std::int64_t n = 0; n < kStripRows; ++n)
    rows[static_cast<std::size_t>(n)] = w.row(std::min(begin + n, w.rows - 1));
  return rows;
}

void multiply_floats(const IsaKernels& isa, const MatmulParams& p, const MatmulTarget& target, const QuantizedRows&,
                     const Part& part) {
  const WeightMatrix& w = *target.weights;
  const std::int64_t begin = part.begin, end_row = part.row + part.rows;
  const std::int64_t strips = (part.end - begin + kStripRows - 1) / kStripRows, strip_floats = kStripRows * p.cols;
  float* floats = matmul_scratch.floats.get<float>(strips * strip_floats);
  for (std::int64_t s = 0; s < strips; ++s) {
    const StripRows rows = strip_rows(w, begin + s * kStripRows);
    for (std::size_t n = 0; n < rows.size(); ++n) {
      isa.unpack_row_f32(w.type, rows[n], p.cols, floats + s * strip_floats + static_cast<std::int64_t>(n) * p.cols);
    }
  }
  for (std::int64_t pass = part.row; pass < end_row; pass += kPassRows) {
    const std::int64_t pass_end = std::min(pass + kPassRows, end_row);
    for (std::int64_t s = 0; s < strips; ++s) {
      float products[kPassRows * kStripRows];
      isa.dot_strip_f32(floats + s * strip_floats, p.x, p.cols, pass, pass_end, products);
      store(target, begin + s * kStripRows, pass, pass_end - pass, products, kStripRows);
    }
  }
}

}  // namespace

void cpu_matmul(const IsaKernels& isa, ActivationBits bits, const MatmulParams& params, ThreadPool& pool) {
  MatmulParams p = params;
  const bool floats = std::ranges::any_of(p.targets, [](const MatmulTarget& t) { return is_float(t.weights->type); });
  if (p.x == nullptr && floats) {
    float* made = matmul_scratch.all_made.get<float>(p.rows * p.cols);
    pool.for_each(p.rows, [&](std::int64_t r) { make_rows(isa, params, r, 1, made + r * p.cols); });
    p.x = made;
  }
  QuantizedRows x{};
  const bool quantized =
      std::ranges::any_of(p.targets, [](const MatmulTarget& t) { return !is_float(t.weights->type); });
  if (quantized) x = quantize(isa, bits, p, pool);

  std::int64_t items = 0;
  for (const MatmulTarget& t : p.targets) items += items_of(t);
  const std::int64_t share = (p.rows + pool.size() - 1) / pool.size();
  const std::int64_t item_rows =
      (std::clamp(share, kFewestItemRows, kMostItemRows) + kTileRows - 1) / kTileRows * kTileRows;
  QUIRE_ASSERT(p.targets.size() <= kMostTargets, "few products of the same rows");
  std::array<MatmulTarget, kMostTargets> targets{};
  std::ranges::copy(p.targets, targets.begin());
  // All of it by value: another thread then has it at hand at once, not one line of memory after the other.
  const auto blocks = (p.rows + item_rows - 1) / item_rows;
  pool.for_each(items * blocks, [&isa, p, x, items, item_rows, targets, count = p.targets.size()](std::int64_t number) {
    const std::int64_t row = number / items * item_rows;
    std::int64_t item = number % items;
    for (const MatmulTarget& t : std::span(targets).first(count)) {
      if (item < items_of(t)) {
        const std::int64_t begin = item * kItemRows;
        const auto multiply = is_float(t.weights->type) ? multiply_floats : multiply_quantized;
        return multiply(isa, p, t, x,
                        {row, std::min(item_rows, p.rows - row), begin, std::min(begin + kItemRows, t.weights->rows)});
      }
      item -= items_of(t);
    }
  });
}

PanelLayout cpu_panel_layout(const IsaKernels& isa, ActivationBits bits, const WeightMatrix& w, bool exact) {
  const bool bytes = bits == ActivationBits::eight && !exact && isa.joined != nullptr;
  return bytes && isa.joined->panel_bytes(w.type, w.cols) > 0 ? PanelLayout::joined : PanelLayout::plain;
}

std::uint64_t cpu_packed_bytes(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout) {
  if (is_float(w.type)) return 0;
  return static_cast<std::uint64_t>((w.rows + kPanelRows - 1) / kPanelRows * panel_bytes(isa, w, layout));
}

void cpu_pack(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout, std::byte* to, ThreadPool& pool) {
  const std::int64_t bytes = panel_bytes(isa, w, layout);
  pool.for_each((w.rows + kItemRows - 1) / kItemRows, [&](std::int64_t item) {
    const std::int64_t begin = item * kItemRows;
    pack_rows(isa, w, layout, begin, std::min(begin + kItemRows, w.rows), to + begin / kPanelRows * bytes);
  });
}

}  // namespace quire
