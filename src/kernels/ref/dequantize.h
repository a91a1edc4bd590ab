// Stored weights to float, one plain line of arithmetic per value: the truth that the fast
// kernels are compared with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace quire {

// source holds `count` values of `type`, out has room for as many floats. count must be a
// multiple of the type's block size. source needs no alignment.
void dequantize(DType type, const std::byte* source, float* out, std::int64_t count);

}  // namespace quire
