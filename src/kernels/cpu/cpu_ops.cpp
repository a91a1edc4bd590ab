// The operations on a CPU: what is shared between threads, and how the work is cut. The inner
// loops come from a table chosen by instruction set.
#include <algorithm>

#include "kernels/cpu/cache_ops.h"
#include "kernels/cpu/made_rows.h"
#include "kernels/cpu/matmul.h"
#include "kernels/ops.h"

namespace quire {
namespace {

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
  for_rows(p.rows, p.dim, pool, [&](std::int64_t r) { norm_row(kIsa, p, r, p.out + r * p.dim); });
}

template <const IsaKernels& kIsa>
void rope(const RopeParams& p, ThreadPool& pool) {
  for_rows(p.rows, p.heads * p.head_dim, pool, [&](std::int64_t r) {
    const std::int64_t half = p.rope_dim / 2;
    for (std::int64_t h = 0; h < p.heads; ++h) {
      kIsa.rope_head(p.x + (r * p.heads + h) * p.head_dim, p.cos + r * half, p.sin + r * half, half, p.adjacent_pairs);
    }
  });
}

template <const IsaKernels& kIsa>
void activate(const ActivateParams& p, ThreadPool& pool) {
  for_rows(p.rows, p.dim, pool, [&](std::int64_t r) { activate_row(kIsa, p, r, p.out + r * p.dim); });
}

void add(const float* x, float* into, std::int64_t count, ThreadPool& pool) {
  constexpr std::int64_t kPiece = 4096;
  pool.for_each((count + kPiece - 1) / kPiece, [&](std::int64_t piece) {
    const std::int64_t end = std::min(count, (piece + 1) * kPiece);
    for (std::int64_t i = piece * kPiece; i < end; ++i) into[i] += x[i];
  });
}

// A table holds plain functions: the instruction set becomes part of each.
template <const IsaKernels& kIsa, auto kOperation, class Params>
void with(const Params& p, ThreadPool& pool) {
  kOperation(kIsa, p, pool);
}

template <const IsaKernels& kIsa, ActivationBits kBits = ActivationBits::sixteen>
constexpr Ops make_ops(std::string_view name) {
  return {name,
          [](const MatmulParams& p, ThreadPool& pool) { cpu_matmul(kIsa, kBits, p, pool); },
          [](const WeightMatrix& w, bool exact) { return cpu_panel_layout(kIsa, kBits, w, exact); },
          [](const WeightMatrix& w, PanelLayout layout) { return cpu_packed_bytes(kIsa, w, layout); },
          [](const WeightMatrix& w, PanelLayout layout, std::byte* to, ThreadPool& pool) {
            cpu_pack(kIsa, w, layout, to, pool);
          },
          norm<kIsa>,
          rope<kIsa>,
          with<kIsa, cpu_append>,
          cpu_encode,
          with<kIsa, cpu_attention>,
          with<kIsa, cpu_score>,
          with<kIsa, cpu_hadamard>,
          activate<kIsa>,
          add};
}

}  // namespace

const Ops& cpu_ops(Isa isa) {
  static constexpr Ops kPortable = make_ops<kPortableKernels>("portable");
  static constexpr Ops kAvx2 = make_ops<kAvx2Kernels>("avx2");
  static constexpr Ops kAvx512 = make_ops<kAvx512Kernels>("avx512");
  switch (isa) {
    case Isa::portable:
      return kPortable;
    case Isa::avx2:
      return kAvx2;
    case Isa::avx512:
      return kAvx512;
  }
  __builtin_unreachable();
}

const Ops& byte_ops() {
  static constexpr Ops kBytes = make_ops<kAvx512Kernels, ActivationBits::eight>("vnni");
  return kBytes;
}

const Ops& bf16_ops() {
  static constexpr Ops kBf16 = make_ops<kBf16Kernels, ActivationBits::eight>("bf16");
  return kBf16;
}

}  // namespace quire
