// A plan, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "lab/plan.h"

namespace quire::cli {

nlohmann::ordered_json plan_json(const Plan& plan);
std::string plan_text(const Plan& plan);

}  // namespace quire::cli
