// The operations on a cache, as slow truth.
#pragma once

#include "kernels/ops.h"

namespace quire {

void ref_append(const AppendParams& params, ThreadPool& pool);
void ref_encode(const EncodeParams& params, ThreadPool& pool);
void ref_attention(const AttentionParams& params, ThreadPool& pool);
void ref_score(const ScoreParams& params, ThreadPool& pool);
void ref_hadamard(const HadamardParams& params, ThreadPool& pool);

}  // namespace quire
