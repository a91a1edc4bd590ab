#pragma once

#include "kernels/cpu/isa_kernels.h"
#include "kernels/ops.h"

namespace quire {

// Ops::matmul by the inner loops of one instruction set.
void cpu_matmul(const IsaKernels& isa, const MatmulParams& p, ThreadPool& pool);

}  // namespace quire
