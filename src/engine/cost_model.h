// How long a step will take, learned from the steps before.
#pragma once

#include <array>
#include <cstdint>

#include "model/config.h"

namespace quire {

// What a step does.
struct StepWork {
  std::int64_t answers;       // rows of them
  double prompts;             // CostModel::prefill_work
  std::uint64_t fresh_bytes;  // of cache, taken from the system
};

class CostModel {
 public:
  explicit CostModel(const ModelConfig& config);

  // Floating-point operations of `rows` prompt tokens after `depth` others, in thousands of millions.
  double prefill_work(std::int64_t rows, std::int64_t depth) const;
  double prefill_ms(double work) const { return work * ms_per_work_; }
  // Prompt tokens after `depth` others that take about `ms`, at least a few.
  std::int64_t rows_within(double ms, std::int64_t depth, std::int64_t most) const;
  // A step in which only answers go on, with so many rows; 0 where none was seen yet.
  double decode_ms(std::int64_t rows) const;
  bool knows_decode(std::int64_t rows) const { return decode_ms_[bucket(rows)] > 0; }  // of about so many

  // What the first touch of memory takes: on machines that are lent theirs piece by piece, far more than writing to it.
  double fresh_ms(std::uint64_t bytes) const { return static_cast<double>(bytes) * ms_per_fresh_byte_; }

  // What prompts may add to a step in which so many rows of answers go on.
  double prompt_budget_ms(std::int64_t rows) const;

  // How much longer a step takes with `rows` rows than with `fewer`.
  double relative_ms(std::int64_t rows, std::int64_t fewer) const;

  void observe(const StepWork& work, double ms);

 private:
  static std::size_t bucket(std::int64_t rows);
  // A step with prompts may take so many times one without.
  double step_growth() const;

  double work_per_row_;            // of everything but attention
  double work_per_row_and_depth_;  // of attention
  double ms_per_work_ = 0;         // of prompts; 0: unknown
  double ms_per_fresh_byte_ = 0;
  std::array<double, 12> decode_ms_{};
  double deviation_ = 0.05;       // of steps from what was foretold, relative, on average
  double beside_prompts_ms_ = 0;  // what is not the prompts' of steps in which both went on; 0: none lately
};

}  // namespace quire
