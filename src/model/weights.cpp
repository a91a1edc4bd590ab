#include "model/weights.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string_view>

#include "core/fail.h"
#include "kernels/ref/dequantize.h"

namespace quire {
namespace {

class TensorReader {
 public:
  explicit TensorReader(const Gguf& file) : file_(file) {}

  bool has(const std::string& name) const { return file_.find_tensor(name) != nullptr; }

  Result<WeightMatrix> matrix(const std::string& name, std::int64_t rows, std::int64_t cols) const {
    QUIRE_TRY(const GgufTensor* tensor, find(name, rows, cols));
    return WeightMatrix{tensor->type, tensor->data.data(), rows, cols};
  }

  Result<FloatVector> vector(const std::string& name, std::int64_t size) const {
    QUIRE_TRY(const GgufTensor* tensor, find(name, 1, size));
    FloatVector values(static_cast<std::size_t>(size));
    dequantize(tensor->type, tensor->data.data(), values.data(), size);
    return values;
  }

  Result<FloatVector> optional_vector(const std::string& name, std::int64_t size) const {
    if (!has(name)) return FloatVector{};
    return vector(name, size);
  }

  Result<Norm> norm(const std::string& name, std::int64_t size, NormParams::Kind kind) const {
    Norm norm;
    QUIRE_TRY(norm.weight, vector(name + ".weight", size));
    if (kind == NormParams::Kind::layer) {
      QUIRE_TRY(norm.bias, optional_vector(name + ".bias", size));
    }
    return norm;
  }

  Result<Linear> linear(const std::string& name, std::int64_t rows, std::int64_t cols) const {
    Linear linear;
    QUIRE_TRY(linear.weight, matrix(name + ".weight", rows, cols));
    QUIRE_TRY(linear.bias, optional_vector(name + ".bias", rows));
    return linear;
  }

 private:
  Result<const GgufTensor*> find(const std::string& name, std::int64_t rows, std::int64_t cols) const {
    const GgufTensor* tensor = file_.find_tensor(name);
    if (tensor == nullptr) {
      return fail(Errc::bad_file, "{}: tensor '{}' is missing; expected [{}, {}]", file_.file_name(), name, cols, rows);
    }
    if (tensor->dims[0] != static_cast<std::uint64_t>(cols) || tensor->dims[1] != static_cast<std::uint64_t>(rows) ||
        tensor->dims[2] != 1 || tensor->dims[3] != 1) {
      return fail(Errc::bad_file, "{}: tensor '{}' is [{}]; expected [{}, {}]", file_.file_name(), name,
                  fmt::join(tensor->dims.begin(), tensor->dims.begin() + tensor->rank, ", "), cols, rows);
    }
    return tensor;
  }

  const Gguf& file_;
};

// Rows [begin, begin + rows) of a matrix and its bias, as if they were a tensor of their own.
Linear slice(const Linear& whole, std::int64_t begin, std::int64_t rows) {
  Linear part;
  part.weight = {whole.weight.type, whole.weight.row(begin), rows, whole.weight.cols};
  if (!whole.bias.empty()) {
    part.bias.assign(whole.bias.begin() + begin, whole.bias.begin() + begin + rows);
  }
  return part;
}

Result<LayerWeights> read_layer(const TensorReader& file, const ModelConfig& c, int index) {
  const std::string prefix = fmt::format("blk.{}.", index);
  const std::int64_t q_width = std::int64_t{c.q_heads} * c.head_dim, kv_width = std::int64_t{c.kv_heads} * c.head_dim;
  LayerWeights layer;
  QUIRE_TRY(layer.attention_norm, file.norm(prefix + "attn_norm", c.width, c.norm));
  if (c.fused_qkv) {
    QUIRE_TRY(const Linear qkv, file.linear(prefix + "attn_qkv", q_width + 2 * kv_width, c.width));
    layer.q = slice(qkv, 0, q_width);
    layer.k = slice(qkv, q_width, kv_width);
    layer.v = slice(qkv, q_width + kv_width, kv_width);
  } else {
    QUIRE_TRY(layer.q, file.linear(prefix + "attn_q", q_width, c.width));
    QUIRE_TRY(layer.k, file.linear(prefix + "attn_k", kv_width, c.width));
    QUIRE_TRY(layer.v, file.linear(prefix + "attn_v", kv_width, c.width));
  }
  QUIRE_TRY(layer.output, file.linear(prefix + "attn_output", c.width, q_width));
  if (c.qk_norm) {
    QUIRE_TRY(layer.q_norm, file.norm(prefix + "attn_q_norm", c.head_dim, c.norm));
    QUIRE_TRY(layer.k_norm, file.norm(prefix + "attn_k_norm", c.head_dim, c.norm));
  }
  QUIRE_TRY(layer.mlp_norm, file.norm(prefix + "ffn_norm", c.width, c.norm));
  if (c.gated_mlp) {
    QUIRE_TRY(layer.gate, file.linear(prefix + "ffn_gate", c.ff_width, c.width));
  }
  QUIRE_TRY(layer.up, file.linear(prefix + "ffn_up", c.ff_width, c.width));
  QUIRE_TRY(layer.down, file.linear(prefix + "ffn_down", c.width, c.ff_width));
  if (c.post_norms) {
    QUIRE_TRY(layer.attention_post_norm, file.norm(prefix + "post_attention_norm", c.width, c.norm));
    QUIRE_TRY(layer.mlp_post_norm, file.norm(prefix + "post_ffw_norm", c.width, c.norm));
  }
  return layer;
}

}  // namespace

Result<Weights> read_weights(const Gguf& file, ModelConfig& config) {
  const TensorReader reader(file);
  Weights weights;
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->rank != 2 || embedding->dims[1] > (1u << 30)) {
    return fail(Errc::bad_file, "{}: tensor 'token_embd.weight' is missing or no matrix; expected [{}, vocabulary]",
                file.file_name(), config.width);
  }
  config.vocabulary = static_cast<int>(embedding->dims[1]);
  QUIRE_TRY(weights.embedding, reader.matrix("token_embd.weight", config.vocabulary, config.width));
  if (config.positions == PositionKind::learned) {
    QUIRE_TRY(weights.positions, reader.matrix("position_embd.weight", config.context, config.width));
  }
  for (int i = 0; i < config.layers; ++i) {
    QUIRE_TRY(LayerWeights layer, read_layer(reader, config, i));
    weights.layers.push_back(std::move(layer));
  }
  QUIRE_TRY(weights.output_norm, reader.norm("output_norm", config.width, config.norm));
  if (reader.has("output.weight")) {
    QUIRE_TRY(weights.output, reader.linear("output", config.vocabulary, config.width));
  } else {
    weights.output.weight = weights.embedding;
  }
  QUIRE_TRY(weights.rope_factors, reader.optional_vector("rope_freqs.weight", config.rope_dim / 2));
  for (const float factor : weights.rope_factors) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      return fail(Errc::bad_file, "{}: tensor 'rope_freqs.weight' holds {}; expected positive numbers",
                  file.file_name(), factor);
    }
  }
  for (const GgufTensor& tensor : file.tensors()) {
    weights.bytes += tensor.data.size();
    weights.parameters += tensor.elements();
  }
  return weights;
}

namespace {

constexpr std::uint64_t kPanelAlignment = 64;  // a cache line

// Matrices that are not arranged yet, and where their panels go, one after the other.
struct Packings {
  struct Packing {
    WeightMatrix* matrix;
    PanelLayout layout;
    std::uint64_t bytes;
  };
  std::vector<Packing> each;
  std::uint64_t bytes = 0;

  Packings(Weights& weights, const Ops& ops) {
    add(weights.output.weight, ops, /*exact=*/true);
    for (LayerWeights& layer : weights.layers) {
      for (Linear* linear : {&layer.q, &layer.k, &layer.v, &layer.output, &layer.gate, &layer.up, &layer.down}) {
        add(linear->weight, ops, /*exact=*/false);
      }
    }
  }

  void add(WeightMatrix& matrix, const Ops& ops, bool exact) {
    const PanelLayout layout = ops.panel_layout(matrix, exact);
    if (matrix.panels[static_cast<std::size_t>(layout)] != nullptr) return;
    const std::uint64_t needed = ops.packed_bytes(matrix, layout);
    if (needed == 0) return;
    each.push_back({&matrix, layout, (needed + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment});
    bytes += each.back().bytes;
  }

  // Throws std::bad_alloc.
  MappedMemory pack(const Ops& ops, ThreadPool& pool) const {
    MappedMemory memory = MappedMemory::map(bytes);
    if (!memory) throw std::bad_alloc();
    std::byte* to = memory.data();
    for (const Packing& packing : each) {
      ops.pack(*packing.matrix, packing.layout, to, pool);
      to += packing.bytes;
    }
    return memory;
  }

  void lie_at(const std::byte* panels) const {
    for (const Packing& packing : each) {
      packing.matrix->panels[static_cast<std::size_t>(packing.layout)] = panels;
      panels += packing.bytes;
    }
  }

  // Of each matrix its shape and its first and last bytes: models that differ differ there.
  PackedKey key(const Ops& ops, const Digest& model) const {
    constexpr std::uint32_t kVersion = 1;  // of the layouts; raised with each change of theirs
    constexpr std::size_t kSample = 64;
    Hasher hasher;
    hasher.update(kVersion).update(std::as_bytes(std::span(std::string_view(ops.name)))).update(model);
    for (const Packing& packing : each) {
      const WeightMatrix& m = *packing.matrix;
      const std::span<const std::byte> data(m.data, static_cast<std::size_t>(m.rows * m.row_bytes()));
      const std::size_t sample = std::min(kSample, data.size());
      hasher.update(static_cast<int>(m.type)).update(m.rows).update(m.cols).update(static_cast<int>(packing.layout));
      hasher.update(packing.bytes).update(data.first(sample)).update(data.last(sample));
    }
    return {hasher.finish(), bytes};
  }
};

}  // namespace

void pack_weights(Weights& weights, const Ops& ops, ThreadPool& pool) {
  const Packings packings(weights, ops);
  if (packings.bytes == 0) return;
  weights.panels.push_back(packings.pack(ops, pool));
  packings.lie_at(weights.panels.back().data());
}

PackedFileUse pack_weights_in_file(Weights& weights, const Ops& ops, ThreadPool& pool, const std::string& path,
                                   const Digest& model) {
  const Packings packings(weights, ops);
  if (packings.bytes == 0) return {};
  const PackedKey key = packings.key(ops, model);
  if (auto file = open_packed_file(path, key); file.ok()) {
    weights.packed_files.push_back(std::move(*file));
    packings.lie_at(weights.packed_files.back().bytes().data() + kPackedHeadBytes);
    return {PackedFileUse::Done::read, {}};
  }
  weights.panels.push_back(packings.pack(ops, pool));
  const MappedMemory& memory = weights.panels.back();
  packings.lie_at(memory.data());
  const auto written = write_packed_file(path, key, {memory.data(), static_cast<std::size_t>(packings.bytes)});
  if (!written.ok()) return {PackedFileUse::Done::failed, written.error().message};
  return {PackedFileUse::Done::written, {}};
}

}  // namespace quire
