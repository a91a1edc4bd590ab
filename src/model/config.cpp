#include "model/config.h"

#include <array>
#include <cmath>

#include "core/fail.h"
#include "core/printable.h"

namespace quire {
namespace {

struct Architecture {
  std::string_view name;
  Result<void> (*describe)(const ArchKeys&, ModelConfig&);
};
constexpr std::array<Architecture, 5> kArchitectures{{
    {"llama", describe_llama},
    {"gemma3", describe_gemma3},
    {"qwen2", describe_qwen2},
    {"qwen3", describe_qwen3},
    {"gpt2", describe_gpt2},
}};

// A stranger's text for a terminal: control characters become '?'.
std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (is_control(c)) c = '?';
  }
  return out;
}

// Far beyond any model, and small enough that products of two of them cannot overflow.
constexpr std::int64_t kMaxLayers = 4096;
constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxContext = std::int64_t{1} << 30;

Result<void> read_sizes(const ArchKeys& keys, ModelConfig& c) {
  QUIRE_TRY(c.layers, keys.integer("block_count", 1, kMaxLayers));
  QUIRE_TRY(c.width, keys.integer("embedding_length", 1, kMaxWidth));
  QUIRE_TRY(c.ff_width, keys.integer("feed_forward_length", 1, kMaxWidth));
  QUIRE_TRY(c.context, keys.integer("context_length", 1, kMaxContext));
  QUIRE_TRY(c.q_heads, keys.integer("attention.head_count", 1, kMaxWidth));
  c.kv_heads = c.q_heads;
  if (keys.has("attention.head_count_kv")) {
    QUIRE_TRY(c.kv_heads, keys.integer("attention.head_count_kv", 1, c.q_heads));
  }
  if (c.q_heads % c.kv_heads != 0) {
    return fail(Errc::bad_file, "{}: {} query heads cannot share {} KV heads; expected a divisor",
                keys.file().file_name(), c.q_heads, c.kv_heads);
  }
  if (keys.has("attention.key_length")) {
    QUIRE_TRY(c.head_dim, keys.integer("attention.key_length", 1, 4096));
    if (keys.has("attention.value_length")) {
      QUIRE_TRY(const int value_dim, keys.integer("attention.value_length", 1, 4096));
      if (value_dim != c.head_dim) {
        return fail(Errc::unsupported, "{}: keys of {} and values of {} values per head; they must be equal",
                    keys.file().file_name(), c.head_dim, value_dim);
      }
    }
  } else {
    if (c.width % c.q_heads != 0) {
      return fail(Errc::bad_file, "{}: a width of {} does not divide into {} heads", keys.file().file_name(), c.width,
                  c.q_heads);
    }
    c.head_dim = c.width / c.q_heads;
  }
  return {};
}

Result<void> read_rope(const ArchKeys& keys, ModelConfig& c) {
  c.rope_dim = c.head_dim;
  if (keys.has("rope.dimension_count")) {
    QUIRE_TRY(c.rope_dim, keys.integer("rope.dimension_count", 0, c.head_dim));
  }
  RopeConfig rope;
  QUIRE_TRY(rope.base, keys.real_or("rope.freq_base", 10000.f));
  // Files without a type mean linear scaling where they give a factor; old ones call it scale_linear.
  const bool old_key = keys.has("rope.scale_linear");
  const char* factor_key = old_key ? "rope.scale_linear" : "rope.scaling.factor";
  std::string_view scaling = keys.has(factor_key) ? "linear" : "none";
  if (keys.has("rope.scaling.type")) {
    QUIRE_TRY(scaling, keys.string("rope.scaling.type"));
  }
  if (scaling == "linear") {
    QUIRE_TRY(rope.linear_factor, keys.real(factor_key));
  } else if (scaling != "none") {
    return fail(Errc::unsupported,
                "{}: RoPE scaling of type {:?}; none, linear and factors in rope_freqs.weight are supported",
                keys.file().file_name(), scaling);
  }
  c.ropes = {rope};
  return {};
}

// What no key can say and still describe a model.
Result<void> check_numbers(const ArchKeys& keys, const ModelConfig& c) {
  const auto check = [&](bool good, const char* what, double value, const char* expected) -> Result<void> {
    if (good) return {};
    return fail(Errc::bad_file, "{}: {} is {}; expected {}", keys.file().file_name(), what, value, expected);
  };
  QUIRE_CHECK_OK(check(c.epsilon >= 0, "the norm's epsilon", static_cast<double>(c.epsilon), "0 or more"));
  QUIRE_CHECK_OK(
      check(c.attention_scale > 0, "the attention scale", static_cast<double>(c.attention_scale), "above 0"));
  QUIRE_CHECK_OK(
      check(c.attention_softcap >= 0, "the attention soft-cap", static_cast<double>(c.attention_softcap), "0 or more"));
  QUIRE_CHECK_OK(
      check(c.logit_softcap >= 0, "the logits' soft-cap", static_cast<double>(c.logit_softcap), "0 or more"));
  for (const RopeConfig& rope : c.ropes) {
    QUIRE_CHECK_OK(check(rope.base > 0, "the RoPE base", rope.base, "above 0"));
    QUIRE_CHECK_OK(check(rope.linear_factor > 0, "the RoPE scaling factor", rope.linear_factor, "above 0"));
    QUIRE_CHECK_OK(check(c.rope_dim % 2 == 0, "the number of values that RoPE turns", c.rope_dim, "an even number"));
  }
  return {};
}

}  // namespace

Result<int> ArchKeys::integer(std::string_view key, std::int64_t at_least, std::int64_t at_most) const {
  const std::string full = prefix_ + std::string(key);
  QUIRE_TRY(const auto value, file_.integer(full, static_cast<std::uint64_t>(at_most)));
  if (value < static_cast<std::uint64_t>(at_least)) {
    return fail(Errc::bad_file, "{}: key '{}' is {}; expected {} to {}", file_.file_name(), full, value, at_least,
                at_most);
  }
  return static_cast<int>(value);
}

Result<float> ArchKeys::real(std::string_view key) const {
  const std::string full = prefix_ + std::string(key);
  QUIRE_TRY(const double value, file_.real(full));
  if (!std::isfinite(static_cast<float>(value))) {
    return fail(Errc::bad_file, "{}: key '{}' is {}; expected a finite number", file_.file_name(), full, value);
  }
  return static_cast<float>(value);
}

Result<float> ArchKeys::real_or(std::string_view key, float fallback) const {
  if (!has(key)) return fallback;
  return real(key);
}

Result<ModelConfig> read_config(const Gguf& file) {
  QUIRE_TRY(const auto architecture, file.string("general.architecture"));
  const Architecture* found = nullptr;
  std::string known;
  for (const Architecture& a : kArchitectures) {
    if (a.name == architecture) found = &a;
    known += (known.empty() ? "" : ", ") + std::string(a.name);
  }
  if (found == nullptr) {
    return fail(Errc::unsupported, "{}: architecture {:?} is not supported; expected one of {}", file.file_name(),
                architecture, known);
  }
  const ArchKeys keys(file, std::string(architecture));
  ModelConfig config;
  config.architecture = architecture;
  if (const auto name = file.string("general.name"); name.ok()) config.name = printable(*name);
  QUIRE_CHECK_OK(read_sizes(keys, config));
  QUIRE_CHECK_OK(read_rope(keys, config));
  config.layer.resize(static_cast<std::size_t>(config.layers));
  QUIRE_TRY(config.attention_scale,
            keys.real_or("attention.scale", 1.f / std::sqrt(static_cast<float>(config.head_dim))));
  QUIRE_TRY(config.attention_softcap, keys.real_or("attn_logit_softcapping", 0.f));
  QUIRE_TRY(config.logit_softcap, keys.real_or("final_logit_softcapping", 0.f));
  QUIRE_CHECK_OK(found->describe(keys, config));
  QUIRE_CHECK_OK(check_numbers(keys, config));
  return config;
}

}  // namespace quire
