#pragma once

#include "kernels/cpu/isa_kernels.h"
#include "kernels/ops.h"

namespace quire {

enum class ActivationBits { eight, sixteen };  // as products with quantised weights see them

// Ops::matmul, panel_layout, packed_bytes and pack by the inner loops of one instruction set.
void cpu_matmul(const IsaKernels& isa, ActivationBits bits, const MatmulParams& p, ThreadPool& pool);
PanelLayout cpu_panel_layout(const IsaKernels& isa, ActivationBits bits, const WeightMatrix& w, bool exact);
std::uint64_t cpu_packed_bytes(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout);
void cpu_pack(const IsaKernels& isa, const WeightMatrix& w, PanelLayout layout, std::byte* to, ThreadPool& pool);

}  // namespace quire
