#include "lab/plan_model.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/fail.h"
#include "lab/embedded.h"
#include "lab/table_text.h"
#include "loader/gguf.h"
#include "loader/mapped_file.h"
#include "model/config.h"

namespace quire {
namespace {

constexpr std::int64_t kMostLayers = 4096, kMostHeads = 4096, kMostDim = 65536, kMostTokens = std::int64_t{1} << 40;
constexpr std::int64_t kMostParameters = 1'000'000'000'000'000;

Result<PlanModel> parse_row(const TableRow& row) {
  PlanModel m;
  m.name = row.fields[0];
  std::size_t column = 1;
  const auto optional = [&](std::string_view name, std::int64_t most) -> Result<std::int64_t> {
    const std::size_t at = column++;
    if (row.empty(at)) return std::int64_t{0};
    return row.integer(at, name, 0, most);
  };
  const auto required = [&](std::string_view name, std::int64_t most) { return row.integer(column++, name, 1, most); };
  QUIRE_TRY(const std::int64_t parameters, required("parameters", kMostParameters));
  QUIRE_TRY(const std::int64_t active, optional("active", kMostParameters));
  m.parameters = static_cast<std::uint64_t>(parameters);
  m.active = active > 0 ? static_cast<std::uint64_t>(active) : m.parameters;
  QUIRE_TRY(m.experts, optional("experts", kMostHeads));
  QUIRE_TRY(m.experts_used, optional("experts used", kMostHeads));
  QUIRE_TRY(m.layers, required("layers", kMostLayers));
  QUIRE_TRY(m.q_heads, required("query heads", kMostHeads));
  QUIRE_TRY(m.kv_heads, required("KV heads", kMostHeads));
  QUIRE_TRY(m.head_dim, required("head dim", kMostDim));
  QUIRE_TRY(m.latent, optional("latent", kMostDim));
  QUIRE_TRY(m.rope, optional("rope", kMostDim));
  QUIRE_TRY(m.window, optional("window", kMostTokens));
  QUIRE_TRY(m.window_layers, optional("local layers", kMostLayers));
  QUIRE_TRY(m.context, required("context", kMostTokens));
  if (const auto checked = check_model(m); !checked.ok()) {
    return fail(Errc::bad_file, "{}, line {}: {}", row.file, row.line, checked.error().message);
  }
  return m;
}

}  // namespace

std::string_view PlanModel::attention() const {
  if (is_latent()) return "mla";
  if (kv_heads == q_heads) return "mha";
  return kv_heads == 1 ? "mqa" : "gqa";
}

double PlanModel::weights_read(double tokens) const {
  const auto bytes = static_cast<double>(weights_bytes);
  if (experts == 0 || parameters == 0) return bytes;
  // Of the experts, each token reads used / experts, chosen as if by lot.
  const double used = static_cast<double>(experts_used) / static_cast<double>(experts);
  const double of_experts = static_cast<double>(parameters - active) / (1 - used) / static_cast<double>(parameters);
  return bytes * (1 - of_experts * std::pow(1 - used, tokens));
}

Result<void> check_model(const PlanModel& m) {
  const auto check = [&](std::string_view what, std::int64_t value, std::int64_t least,
                         std::int64_t most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return fail(Errc::invalid_argument, "{} {} of model '{}'; expected {} to {}", value, what, m.name, least, most);
  };
  QUIRE_CHECK_OK(check("layers", m.layers, 1, kMostLayers));
  QUIRE_CHECK_OK(check("query heads", m.q_heads, 1, kMostHeads));
  QUIRE_CHECK_OK(check("KV heads", m.kv_heads, 1, m.q_heads));
  QUIRE_CHECK_OK(check("values per head", m.head_dim, 1, kMostDim));
  QUIRE_CHECK_OK(check("latent values", m.latent, 0, kMostDim));
  QUIRE_CHECK_OK(check("RoPE values", m.rope, m.is_latent() ? 1 : 0, m.is_latent() ? kMostDim : 0));
  QUIRE_CHECK_OK(check("local layers", m.window_layers, m.window > 0 ? 1 : 0, m.window > 0 ? m.layers : 0));
  QUIRE_CHECK_OK(
      check("experts used", m.experts_used, m.experts > 0 ? 1 : 0, std::max<std::int64_t>(m.experts - 1, 0)));
  if (m.q_heads % m.kv_heads != 0) {
    return fail(Errc::invalid_argument, "{} KV heads for {} query heads of model '{}'; each must serve as many",
                m.kv_heads, m.q_heads, m.name);
  }
  if (m.active > m.parameters) {
    return fail(Errc::invalid_argument, "{} active of {} parameters of model '{}'; expected no more than there are",
                m.active, m.parameters, m.name);
  }
  return {};
}

Result<std::vector<PlanModel>> parse_models(std::string_view text, std::string_view file) {
  constexpr std::size_t kColumns = 14;
  QUIRE_TRY(const std::vector<TableRow> rows, parse_table(text, file, kColumns));
  std::vector<PlanModel> models;
  for (const TableRow& row : rows) {
    QUIRE_TRY(PlanModel model, parse_row(row));
    models.push_back(std::move(model));
  }
  return models;
}

const std::vector<PlanModel>& plan_presets() {
  static const std::vector<PlanModel> presets = [] {
    auto parsed = parse_models(embedded_models(), "the table of models");
    QUIRE_ASSERT(parsed.ok(), "the embedded table of models is broken");
    return std::move(*parsed);
  }();
  return presets;
}

Result<PlanModel> find_preset(std::string_view name) {
  std::vector<std::string> names;
  for (const PlanModel& preset : plan_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  return fail(Errc::invalid_argument, "no model '{}'; {} A GGUF file or numbers (--layers, --kv-heads ...) will do too",
              name, suggestion(name, names));
}

Result<PlanModel> model_from_file(const std::string& path) {
  QUIRE_TRY(const MappedFile file, MappedFile::open(path));
  QUIRE_TRY(const Gguf gguf, Gguf::parse(file.bytes(), path));
  QUIRE_TRY(const ModelConfig config, read_config(gguf));
  PlanModel m;
  m.name = config.name.empty() ? path : config.name;
  for (const GgufTensor& tensor : gguf.tensors()) {
    m.parameters += tensor.elements();
    m.weights_bytes += tensor.data.size();
  }
  m.active = m.parameters;
  m.layers = config.layers;
  m.q_heads = config.q_heads;
  m.kv_heads = config.kv_heads;
  m.head_dim = config.head_dim;
  m.context = config.context;
  for (const LayerConfig& layer : config.layer) {
    if (layer.window == 0) continue;
    m.window = layer.window;
    ++m.window_layers;
  }
  return m;
}

}  // namespace quire
