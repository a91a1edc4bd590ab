// The operations on a cache, with the inner loops of one instruction set.
#pragma once

#include "kernels/cpu/isa_kernels.h"
#include "kernels/ops.h"

namespace quire {

void cpu_append(const IsaKernels& isa, const AppendParams& p, ThreadPool& pool);
void cpu_encode(const EncodeParams& p, ThreadPool& pool);
void cpu_attention(const IsaKernels& isa, const AttentionParams& p, ThreadPool& pool);
void cpu_score(const IsaKernels& isa, const ScoreParams& p, ThreadPool& pool);
void cpu_hadamard(const IsaKernels& isa, const HadamardParams& p, ThreadPool& pool);

TileLayout tile_layout(const KvStreamLayout& stream);
PageTileLayouts tile_layouts(const KvPageLayout& page);

}  // namespace quire
