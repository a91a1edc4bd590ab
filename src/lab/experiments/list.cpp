#include "lab/experiments/list.h"

#include <array>

#include "core/fail.h"
#include "lab/table_text.h"

namespace quire::lab {

std::span<const Experiment* const> experiments() {
  static constexpr std::array kAll{&kSpeed,    &kEquality, &kBreak, &kMemory, &kLatency, &kFlops, &kSharing,
                                   &kCapacity, &kQuant,    &kSinks, &kLayers, &kWindow,  &kEvict, &kLayout};
  return kAll;
}

Result<const Experiment*> find_experiment(std::string_view name) {
  std::vector<std::string> names;
  for (const Experiment* experiment : experiments()) {
    if (experiment->name == name) return experiment;
    names.emplace_back(experiment->name);
  }
  return fail(Errc::invalid_argument, "no experiment '{}'; {}", name, suggestion(name, names));
}

}  // namespace quire::lab
