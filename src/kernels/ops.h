// What a backend can do, as a table of plain functions on plain views. `ref` fills it with the
// slow truth; every other backend is tested against that.
//
// Every operation treats each row alone: the bits of a row never depend on how many rows are
// computed with it or on the number of threads. Cached and uncached generation, one chunk or
// many, alone or in a batch: the same tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/cpu_features.h"
#include "core/dtype.h"
#include "core/thread_pool.h"
#include "kv/view.h"
#include "quire/result.h"

namespace quire {

// How weights may be arranged for products.
enum class PanelLayout { plain, joined };

// A weight matrix as the model file stores it: `rows` outputs, each a run of blocks over `cols` inputs.
struct WeightMatrix {
  DType type = DType::f32;
  const std::byte* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::array<const std::byte*, 2> panels{};  // by PanelLayout, as Ops::pack arranged them; null: not so

  std::int64_t row_bytes() const { return cols / info(type).block_size * info(type).block_bytes; }
  const std::byte* row(std::int64_t r) const { return data + r * row_bytes(); }
};

struct NormParams {
  enum class Kind { rms, layer };
  Kind kind;
  const float* x;       // [rows, dim]
  float* out;           // [rows, dim], may be x
  const float* weight;  // [dim]
  const float* bias;    // [dim], or null
  float epsilon;
  std::int64_t rows;
  std::int64_t dim;
};

struct ActivateParams {
  enum class Kind { silu, gelu_tanh };
  Kind kind;
  const float* gate;  // [rows, dim]
  const float* up;    // [rows, dim]: out = act(gate) * up; or null: out = act(gate)
  float* out;         // [rows, dim], may be gate
  std::int64_t rows;
  std::int64_t dim;
};

// out[r, n] = sum over c of x[r, c] * weights[n, c], plus bias[n]
struct MatmulTarget {
  const WeightMatrix* weights;
  const float* bias;  // [weights.rows], or null
  float* out;         // [rows, weights.rows]
  bool add = false;   // out += all that
};
struct MatmulParams {
  const float* x;  // [rows, cols]; null where it is made on the way
  std::int64_t rows;
  std::int64_t cols;
  std::span<const MatmulTarget> targets;  // all read the same x
  bool exact = false;                     // x is never rounded to 8 bits
  // x is what one of these makes, row by row; nobody writes its `out`.
  const NormParams* normed = nullptr;
  const ActivateParams* activated = nullptr;
};

struct RopeParams {
  float* x;          // [rows, heads, head_dim], in place
  const float* cos;  // [rows, rope_dim / 2]
  const float* sin;  // [rows, rope_dim / 2]
  std::int64_t rows;
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t rope_dim;  // dimensions from here on are left alone
  bool adjacent_pairs;    // pair (2i, 2i+1) if true, else (i, i + rope_dim/2)
};

// Where in a cache an operation works: one layer of one group.
struct KvTarget {
  const KvGroupLayout* group;
  std::int64_t layer;
  std::span<const KvRows> sequences;
};

// Writes the rows of each sequence at its next positions, into the wide pages.
struct AppendParams {
  const float* keys;    // [rows, kv_heads, keys.dim]
  const float* values;  // [rows, kv_heads, values.dim]
  KvTarget kv;
};

// Encodes wide pages that these rows complete (and that do not stay wide) into their packed pages.
struct EncodeParams {
  KvTarget kv;
};

// Row r of a sequence is the query at position first_position + r. It sees itself and what came
// before, as the cache holds it and as the group's visibility allows. Nothing else is read.
struct AttentionParams {
  const float* q;        // [rows, q_heads, query_dim], not yet scaled
  const float* q_sinks;  // the same queries, turned for the sinks; null where the group has none
  float* out;            // [rows, q_heads, values.dim]
  KvTarget kv;
  std::int64_t q_heads;
  float scale;
  float softcap;       // scores become softcap * tanh(score / softcap); 0: none
  float* log_sum_exp;  // [rows, q_heads], or null: what `score` needs
};

// How much attention each cached token got: adds exp(score - log_sum_exp), summed over the rows and
// the query heads of a KV head. Online softmax never holds these probabilities, hence an
// operation of its own, after attention. One sequence.
struct ScoreParams {
  const float* q;            // [rows, q_heads, query_dim]
  const float* log_sum_exp;  // [rows, q_heads]
  KvTarget kv;               // exactly one sequence, of a group without sinks or window
  std::int64_t q_heads;
  float scale;
  float softcap;
  float* sums;  // [kv_heads, kept_tokens + positions from table.first_position to the last row]
};

// x[r] = x[r] times the Hadamard matrix of kv/hadamard.h; its own inverse.
struct HadamardParams {
  float* x;  // [rows, dim], in place
  std::int64_t rows;
  std::int64_t dim;
};

struct Ops {
  std::string_view name;
  void (*matmul)(const MatmulParams&, ThreadPool&);
  // Weights arranged for this backend's products, once, where they take bytes at all.
  PanelLayout (*panel_layout)(const WeightMatrix&, bool exact);  // of what MatmulParams says is exact, or not
  std::uint64_t (*packed_bytes)(const WeightMatrix&, PanelLayout);
  void (*pack)(const WeightMatrix&, PanelLayout, std::byte* to, ThreadPool&);
  void (*norm)(const NormParams&, ThreadPool&);
  void (*rope)(const RopeParams&, ThreadPool&);
  void (*append)(const AppendParams&, ThreadPool&);
  void (*encode)(const EncodeParams&, ThreadPool&);
  void (*attention)(const AttentionParams&, ThreadPool&);
  void (*score)(const ScoreParams&, ThreadPool&);
  void (*hadamard)(const HadamardParams&, ThreadPool&);
  void (*activate)(const ActivateParams&, ThreadPool&);
  void (*add)(const float* x, float* into, std::int64_t count, ThreadPool&);  // into[i] += x[i]
};

const Ops& ref_ops();
const Ops& cpu_ops(Isa isa);
// Those of AVX-512 with activations of 8 bits instead of 16: products take half the time, and results differ by what
// rounding to 8 bits costs.
const Ops& byte_ops();
// The same, and attention multiplies f16 caches in bf16. Only where multiplies_bf16().
const Ops& bf16_ops();
const Ops& fastest_ops();  // of this machine

// "ref", "portable", "avx2" ...; "auto" for the fastest of this machine, "exact" for the fastest of those that round
// nothing to 8 bits.
Result<const Ops*> find_ops(std::string_view name);

}  // namespace quire
