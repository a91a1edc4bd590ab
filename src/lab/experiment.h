// An experiment: a name, a question, and a function that answers it with numbers.
//
// To add one: a file in experiments/ that defines an Experiment, and two lines in experiments/list.cpp. Whatever takes
// long says so through Workbench::at(), which is also where Ctrl-C is noticed.
#pragma once

#include <span>
#include <string_view>

#include "lab/outcome.h"
#include "lab/workbench.h"
#include "quire/result.h"

namespace quire::lab {

struct Experiment {
  std::string_view name;  // on the command line
  std::string_view title;
  std::string_view question;
  // Roughly, for SmolLM2 135M on two cores: how much time is left is foretold from these.
  double seconds;
  double quick_seconds;
  Result<Outcome> (*run)(Workbench& bench);
};

std::span<const Experiment* const> experiments();  // in the order in which they are best read
Result<const Experiment*> find_experiment(std::string_view name);

}  // namespace quire::lab
