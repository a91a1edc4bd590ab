#include "cache/property/machine.h"

namespace quire::property {
namespace {

KvGroupSpec spec(KvFormat keys, KvFormat values, std::int64_t layers, std::int64_t heads, KvVisibility visible = {}) {
  KvGroupSpec s;
  s.layers = layers;
  s.kv_heads = heads;
  s.key_dim = s.value_dim = 8;
  s.keys = keys;
  s.values = values;
  s.visible = visible;
  return s;
}

KvGroupSpec wide_ends(KvGroupSpec s, std::int64_t sink_pages, std::int64_t recent_pages) {
  s.sink_pages = sink_pages;
  s.recent_pages = recent_pages;
  return s;
}

}  // namespace

std::vector<Setup> all_setups() {
  using enum KvFormat;
  const KvGroupSpec plain = spec(f16, f16, 2, 1);
  const KvGroupSpec bytes = wide_ends(spec(q8, q8, 1, 2), 1, 1);
  const KvGroupSpec local = spec(f16, f16, 2, 1, {0, 40});
  KvGroupSpec uneven = spec(k4, q4, 1, 1);
  uneven.value_dim = 24;
  const std::vector<KvVisibility> none{{}};
  return {
      {"f16", {plain}},
      {"f32 keys, bf16 values", {spec(f32, bf16, 1, 2)}},
      {"q8, recent and sink pages", {bytes}},
      {"k4 keys, q4 values", {spec(k4, q4, 2, 1)}},
      {"f16 keys, q5 values, two recent pages", {wide_ends(spec(f16, q5, 1, 1), 0, 2)}},
      {"full and window", {plain, local}},
      {"full and window of one", {plain, spec(f16, f16, 1, 1, {0, 1})}},
      {"encoded, full and window", {bytes, wide_ends(spec(q4, k2, 1, 1, {0, 20}), 0, 2)}},
      {"f16, policies", {plain}, {{}, {0, 40}, {40, 56}, {4, 60}}},
      {"encoded, policies", {wide_ends(spec(k4, q5, 1, 1), 1, 1)}, {{}, {4, 70}, {0, 100}}},
      {"full and window, policies", {plain, local}, {{}, {4, 30}, {0, 70}, {30, 20}}},
      {"window alone, policies", {spec(q8, f16, 1, 1, {0, 50})}, {{}, {4, 20}}},
      {"f16, tight", {plain}, none, 56 << 10},
      {"k4 keys, q4 values, uneven, tight", {uneven}, none, 48 << 10},
      {"q8, recent and sink pages, tight", {bytes}, none, 56 << 10, "lru"},
      {"full and window, tight", {plain, local}, none, 96 << 10},
      {"policies, tight", {bytes, local}, {{}, {4, 60}, {0, 20}}, 96 << 10},
  };
}

CacheOptions options_of(const Setup& setup) {
  CacheOptions options;
  options.groups = setup.groups;
  options.eviction = setup.eviction;
  options.poison = true;
  constexpr std::uint64_t kPlenty = 64 << 20;
  options.budget_bytes = setup.tight_budget == 0 ? kPlenty : setup.tight_budget;
  return options;
}

std::vector<KvGroupLayout> layouts_of(const Setup& setup) {
  std::vector<KvGroupLayout> layouts;
  for (const KvGroupSpec& group : setup.groups) layouts.push_back(*make_layout(group));
  return layouts;
}

}  // namespace quire::property
