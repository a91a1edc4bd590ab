// Rows that are made one by one, alone or on their way into a product.
#pragma once

#include "kernels/cpu/isa_kernels.h"
#include "kernels/ops.h"

namespace quire {

inline void norm_row(const IsaKernels& isa, const NormParams& p, std::int64_t r, float* out) {
  const float* x = p.x + r * p.dim;
  if (p.kind == NormParams::Kind::rms) {
    isa.rms_norm_row(x, p.weight, p.epsilon, p.dim, out);
  } else {
    isa.layer_norm_row(x, p.weight, p.bias, p.epsilon, p.dim, out);
  }
}

inline void activate_row(const IsaKernels& isa, const ActivateParams& p, std::int64_t r, float* out) {
  const auto row = p.kind == ActivateParams::Kind::silu ? isa.silu_row : isa.gelu_row;
  row(p.gate + r * p.dim, p.up != nullptr ? p.up + r * p.dim : nullptr, p.dim, out);
}

}  // namespace quire
