#include "engine/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quire {
namespace {

// Depth and machine change slowly; a step that somebody else's work on the machine made long says nothing.
constexpr double kWeightOfNew = 0.1;
constexpr double kMostOfAverage = 1.5;
constexpr std::int64_t kFewRows = 2;  // or a prompt would never end
// Steps with prompts should take so many times one without, so that even the longest of a hundred take less than three
// times as long; a little less where steps do not take what was foretold. While a long prompt is computed, answers
// grow and take longer: what prompts may add shrinks by as much, but not below a share of the step. To be careful does
// not pay: few rows of a prompt read all keys before them too, so it would take ever longer and answers grow ever
// longer.
constexpr double kMostGrowth = 2.15, kLeastGrowth = 1.9;
constexpr double kWeightOfNewDeviation = 0.02, kLargestDeviation = 0.5;
constexpr double kLeastShare = 0.5;

void learn(double& average, double value) {
  average = average == 0 ? value : average + kWeightOfNew * (value - average);
}
void learn_time(double& average, double ms) {
  learn(average, std::min(ms, average > 0 ? kMostOfAverage * average : ms));
}

}  // namespace

CostModel::CostModel(const ModelConfig& config) {
  const double width = config.width, q = config.q_heads * config.head_dim, kv = config.kv_heads * config.head_dim;
  const double mlp = width * config.ff_width * (config.gated_mlp ? 3 : 2);
  work_per_row_ = 2e-9 * config.layers * (width * (2 * q + 2 * kv) + mlp);
  work_per_row_and_depth_ = 4e-9 * config.layers * q;
}

double CostModel::prefill_work(std::int64_t rows, std::int64_t depth) const {
  const auto n = static_cast<double>(rows);
  return n * (work_per_row_ + work_per_row_and_depth_ * (static_cast<double>(depth) + n / 2));
}

std::int64_t CostModel::rows_within(double ms, std::int64_t depth, std::int64_t most) const {
  if (ms_per_work_ == 0) return std::min(most, kFewRows);
  const double per_row = ms_per_work_ * (work_per_row_ + work_per_row_and_depth_ * static_cast<double>(depth));
  return std::clamp(static_cast<std::int64_t>(ms / per_row), std::min(most, kFewRows), most);
}

std::size_t CostModel::bucket(std::int64_t rows) {
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(rows))), 11);
}

double CostModel::decode_ms(std::int64_t rows) const {
  // Where this many were never seen, the nearest number of rows that was, fewer first.
  for (std::size_t b = bucket(rows) + 1; b-- > 0;) {
    if (decode_ms_[b] > 0) return decode_ms_[b];
  }
  const auto seen = std::ranges::find_if(decode_ms_, [](double ms) { return ms > 0; });
  return seen == decode_ms_.end() ? 0 : *seen;
}

double CostModel::step_growth() const { return std::max(kMostGrowth / (1 + deviation_), kLeastGrowth); }

double CostModel::prompt_budget_ms(std::int64_t rows) const {
  const double before = decode_ms(rows), now = beside_prompts_ms_ > 0 ? beside_prompts_ms_ : before;
  return std::max(step_growth() * before - now, kLeastShare * before);
}

double CostModel::relative_ms(std::int64_t rows, std::int64_t fewer) const {
  const double more = decode_ms(rows), less = decode_ms(fewer);
  return less > 0 ? std::max(more / less, 1.0) : 1.0;
}

void CostModel::observe(const StepWork& work, double ms) {
  const double beside = work.prompts > 0 && beside_prompts_ms_ > 0 ? beside_prompts_ms_ : decode_ms(work.answers);
  const bool first_of_its_kind = work.prompts == 0 && work.answers > 0 && !knows_decode(work.answers);
  if (work.answers > 0 && work.fresh_bytes > 0 && beside > 0 && !first_of_its_kind) {
    const double rest = ms - beside - prefill_ms(work.prompts);
    return learn(ms_per_fresh_byte_, std::max(rest, 0.0) / static_cast<double>(work.fresh_bytes));
  }
  if (work.answers > 0 && beside > 0) {
    const double off = std::abs(ms / (beside + prefill_ms(work.prompts)) - 1);
    deviation_ += kWeightOfNewDeviation * (std::min(off, kLargestDeviation) - deviation_);
  }
  if (work.prompts == 0) {
    const double alone = std::max(ms - fresh_ms(work.fresh_bytes), 0.5 * ms);
    if (work.answers > 0) learn_time(decode_ms_[bucket(work.answers)], alone);
    beside_prompts_ms_ = 0;
    return;
  }
  if (work.answers == 0 || ms_per_work_ == 0) {
    const double rest = ms - fresh_ms(work.fresh_bytes) - (work.answers > 0 ? decode_ms(work.answers) : 0);
    if (rest > 0) learn_time(ms_per_work_, rest / work.prompts);
  } else {
    // What few rows of a prompt take beyond many is counted here too: the budget then settles where steps take
    // what they should.
    if (beside_prompts_ms_ == 0) beside_prompts_ms_ = beside;
    learn_time(beside_prompts_ms_, std::max(ms - prefill_ms(work.prompts), 0.1 * ms));
  }
}

}  // namespace quire
