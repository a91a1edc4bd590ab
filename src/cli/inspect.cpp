// `quire inspect`: what is in a model file.
#include <fmt/format.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/common.h"
#include "cli/report.h"
#include "engine/model_parts.h"
#include "kv/format.h"
#include "lab/plan_cache.h"
#include "loader/gguf.h"
#include "loader/mapped_file.h"

namespace quire::cli {
namespace {

struct InspectOptions {
  std::string path;
  bool json = false;
  bool tensors = false;
};

std::string shape(const GgufTensor& tensor) {
  return fmt::format("[{}]", fmt::join(tensor.dims.begin(), tensor.dims.begin() + tensor.rank, ", "));
}

using Json = nlohmann::ordered_json;

// What the file is as a model: its size, its tokenizer and its cache. An error says why it is none that runs here.
Result<Json> as_model(const std::string& path) {
  const auto model = Model::load(path);
  if (!model.ok()) return model.error();
  const ModelInfo& info = (*model)->info();
  const auto plan = model_from_file(path);
  if (!plan.ok()) return plan.error();
  const auto geometry = [&](const std::string& type, bool own_windows) {
    CacheChoice choice;
    choice.settings.type_k = choice.settings.type_v = type;
    choice.own_windows = own_windows;
    return CacheDemand::create(*plan, choice);
  };
  const Tokenizer& tokenizer = (*model)->parts().tokenizer;
  const auto token = [&](std::optional<TokenId> id) {
    return id ? Json{{"id", *id}, {"text", tokenizer.piece(*id)}} : Json{};
  };
  Json formats = Json::array();
  for (const KvFormatInfo& format : kv_formats()) {
    const std::string type(format.name);
    const auto cache = geometry(type, true);
    if (!cache.ok()) return cache.error();
    formats.push_back({{"type", type},
                       {"bytes_per_token", cache->bytes_per_token()},
                       {"bytes_at_context", cache->bytes(info.context, 1)}});
  }
  const auto sixteen_bits = geometry("f16", true);
  if (!sixteen_bits.ok()) return sixteen_bits.error();
  return Json{{"model",
               {{"name", info.name},
                {"architecture", info.architecture},
                {"layers", info.layers},
                {"width", info.width},
                {"context", info.context},
                {"parameters", info.parameters},
                {"weights_bytes", info.weights_bytes}}},
              {"tokenizer",
               {{"tokens", tokenizer.size()},
                {"bos", token(tokenizer.bos())},
                {"eos", token(tokenizer.eos())},
                {"eot", token(tokenizer.eot())},
                {"adds_bos", tokenizer.adds_bos()},
                {"chat_template", (*model)->has_chat_template()}}},
              {"kv",
               {{"layers", info.layers},
                {"q_heads", info.q_heads},
                {"kv_heads", info.kv_heads},
                {"head_dim", info.head_dim},
                {"attention", plan->attention()},
                {"window", plan->window},
                {"window_layers", plan->window_layers},
                {"bytes_per_token", sixteen_bits->bytes_per_token()},
                {"bytes_at_context", sixteen_bits->bytes(info.context, 1)},
                {"formats", std::move(formats)}}}};
}

Json to_json(const Gguf& gguf, std::size_t file_bytes) {
  Json out{{"file", gguf.file_name()}, {"version", gguf.version()}, {"file_bytes", file_bytes}};
  for (const std::string_view key : gguf.keys()) out["metadata"][std::string(key)] = gguf.show(key);
  for (const GgufTensor& t : gguf.tensors()) {
    out["tensors"].push_back(
        {{"name", t.name}, {"type", info(t.type).name}, {"shape", shape(t)}, {"bytes", t.data.size()}});
  }
  return out;
}

void print_model(const Json& m) {
  const Json &model = m["model"], &tokenizer = m["tokenizer"], &kv = m["kv"];
  const double parameters = model["parameters"], bytes = model["weights_bytes"];
  fmt::print("\n  model      {}: {} layers of width {}, trained for {} tokens\n",
             model["architecture"].get<std::string>(), model["layers"].get<int>(), model["width"].get<int>(),
             model["context"].get<std::int64_t>());
  fmt::print("  weights    {:.1f} million parameters, {}, {:.2f} bits each\n", parameters / 1e6,
             human_bytes(model["weights_bytes"]), 8 * bytes / parameters);
  fmt::print("  tokenizer  {} tokens", tokenizer["tokens"].get<std::size_t>());
  for (const char* name : {"bos", "eos", "eot"}) {
    const Json& token = tokenizer[name];
    if (!token.is_null()) fmt::print(", {} {} {}", name, token["id"].get<TokenId>(), token["text"].dump());
  }
  fmt::print("{}{}\n", tokenizer["adds_bos"].get<bool>() ? "; bos stands before every text" : "",
             tokenizer["chat_template"].get<bool>() ? "; a chat template" : "; no chat template");
  fmt::print("  attention  {}: {} query heads, {} of keys and values, of {} values each",
             kv["attention"].get<std::string>(), kv["q_heads"].get<int>(), kv["kv_heads"].get<int>(),
             kv["head_dim"].get<int>());
  if (kv["window_layers"].get<std::int64_t>() > 0) {
    fmt::print("; {} layers see {} tokens", kv["window_layers"].get<std::int64_t>(), kv["window"].get<std::int64_t>());
  }
  fmt::print("\n  cache      {:<6} {:>16} {:>16}\n", "format", "bytes per token", "a whole context");
  for (const Json& format : kv["formats"]) {
    fmt::print("             {:<6} {:>16.0f} {:>16}\n", format["type"].get<std::string>(),
               format["bytes_per_token"].get<double>(), human_bytes(format["bytes_at_context"]));
  }
}

void print(const Gguf& gguf, bool tensors) {
  fmt::print("{}: GGUF version {}, {} keys, {} tensors\n\n", gguf.file_name(), gguf.version(), gguf.keys().size(),
             gguf.tensors().size());
  for (const std::string_view key : gguf.keys()) fmt::print("  {:<44} {}\n", key, gguf.show(key));
  struct Total {
    std::size_t tensors = 0;
    std::uint64_t values = 0, bytes = 0;
  };
  std::map<std::string_view, Total> totals;
  for (const GgufTensor& t : gguf.tensors()) {
    Total& total = totals[info(t.type).name];
    ++total.tensors;
    total.values += t.elements();
    total.bytes += t.data.size();
  }
  fmt::print("\n  {:<8} {:>8} {:>16} {:>12} {:>10}\n", "type", "tensors", "values", "bytes", "bits each");
  for (const auto& [type, total] : totals) {
    fmt::print("  {:<8} {:>8} {:>16} {:>12} {:>10.2f}\n", type, total.tensors, total.values, human_bytes(total.bytes),
               8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.values));
  }
  if (!tensors) return;
  fmt::print("\n");
  for (const GgufTensor& t : gguf.tensors()) {
    fmt::print("  {:<44} {:<7} {:>12}  {}\n", t.name, info(t.type).name, human_bytes(t.data.size()), shape(t));
  }
}

int inspect(const InspectOptions& o) {
  const auto path = find_model(o.path);
  if (!path.ok()) return report_error(path.error());
  const auto file = MappedFile::open(*path);
  if (!file.ok()) return report_error(file.error());
  const auto gguf = Gguf::parse(file->bytes(), *path);
  if (!gguf.ok()) return report_error(gguf.error());
  const auto model = as_model(*path);
  if (o.json) {
    Json out = to_json(*gguf, file->bytes().size());
    if (model.ok()) out.update(*model);
    out["runs"] = model.ok();
    std::cout << out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  } else {
    print(*gguf, o.tensors);
    if (model.ok()) print_model(*model);
  }
  // A file can be whole and yet be no model that runs here: what is in it was shown, and now why.
  return model.ok() ? kSuccess : report_error(model.error());
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model file");
  command->add_option("file,-m,--model", options->path, "Model file (GGUF)");
  command->add_flag("--tensors", options->tensors, "List every tensor");
  command->add_flag("--json", options->json, "Print one JSON document");
  command->callback([options, &exit_status] { exit_status = inspect(*options); });
}

}  // namespace quire::cli
