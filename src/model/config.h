// Everything that distinguishes one decoder from another, as data. An architecture is a short
// function that fills this in from a model file (arch/); decoder.cpp knows no architecture.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "kv/geometry.h"
#include "loader/gguf.h"
#include "quire/result.h"

namespace quire {

struct RopeConfig {
  double base = 10000;
  double linear_factor = 1;  // positions are divided by it
  bool use_factors = true;   // divide frequencies by rope_freqs.weight where the file has it
};

struct LayerConfig {
  std::int64_t window = 0;  // tokens a query sees, itself included; 0: all
  int rope = 0;             // index into ModelConfig::ropes
};

enum class PositionKind {
  none,
  learned,
  rope_adjacent,
  rope_split
};  // which values RoPE pairs: (2i, 2i+1) or (i, i+d/2)

struct ModelConfig {
  std::string architecture;
  std::string name;

  int layers = 0;
  int width = 0;
  int ff_width = 0;
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int vocabulary = 0;
  std::int64_t context = 0;  // positions the model was trained for

  NormParams::Kind norm = NormParams::Kind::rms;
  float epsilon = 1e-5f;
  bool qk_norm = false;     // normalise each head of queries and keys
  bool post_norms = false;  // normalise what attention and MLP give, before adding it

  bool gated_mlp = true;  // act(gate) * up, else act(up)
  ActivateParams::Kind activation = ActivateParams::Kind::silu;

  bool fused_qkv = false;  // one tensor holds queries, keys and values

  PositionKind positions = PositionKind::rope_adjacent;
  int rope_dim = 0;
  std::vector<RopeConfig> ropes;
  std::vector<LayerConfig> layer;  // [layers]

  float attention_scale = 0;
  float attention_softcap = 0;  // 0: none
  float logit_softcap = 0;      // 0: none
  float embedding_scale = 1;

  KvGeometry kv_geometry() const { return {layers, kv_heads, head_dim}; }
};

// Fails, naming file and key, when something is missing, absurd or not supported.
Result<ModelConfig> read_config(const Gguf& file);

// For the files in arch/: a key with the architecture's prefix.
class ArchKeys {
 public:
  ArchKeys(const Gguf& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  bool has(std::string_view key) const { return file_.has(prefix_ + std::string(key)); }
  Result<int> integer(std::string_view key, std::int64_t at_least, std::int64_t at_most) const;
  Result<float> real(std::string_view key) const;
  Result<float> real_or(std::string_view key, float fallback) const;
  Result<std::string_view> string(std::string_view key) const { return file_.string(prefix_ + std::string(key)); }
  const Gguf& file() const { return file_; }

 private:
  const Gguf& file_;
  std::string prefix_;
};

// What architectures add to the common keys, which read_config() has already filled in.
Result<void> describe_llama(const ArchKeys& keys, ModelConfig& config);
Result<void> describe_gemma3(const ArchKeys& keys, ModelConfig& config);
Result<void> describe_qwen2(const ArchKeys& keys, ModelConfig& config);
Result<void> describe_qwen3(const ArchKeys& keys, ModelConfig& config);
Result<void> describe_gpt2(const ArchKeys& keys, ModelConfig& config);

}  // namespace quire
