// Which tokens a sequence keeps. A policy says two things, either of which may be trivial: what a
// query may see of the positions that are there (windows, sinks: the same for all heads, known
// beforehand), and which tokens to let go after looking at how much attention they got (H2O,
// SnapKV: each head its own choice).
//
// To add one: a file beside this one that derives from RetentionPolicy, and a line in policy.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kv/view.h"
#include "quire/result.h"

namespace quire {

// Where a sequence stands when a policy is asked.
struct RetentionState {
  std::int64_t length;          // tokens so far
  std::int64_t prompt;          // of which the prompt has, or will have, so many
  std::int64_t kept;            // tokens per head that outlived earlier evictions
  std::int64_t first_position;  // those from here to the end are all there
};

// Let go of all but `keep` of the tokens before `first_position`, in each head by itself.
struct Eviction {
  std::int64_t first_position;  // a multiple of the page size
  std::int64_t keep;
};

class RetentionPolicy {
 public:
  virtual ~RetentionPolicy() = default;

  virtual std::string name() const = 0;  // as it is written on a command line
  virtual KvVisibility visible() const { return {}; }

  // Of the next `rows` tokens, how many of the last should have their attention added up.
  virtual std::int64_t scored_rows(const RetentionState&, std::int64_t /*rows*/) const { return 0; }
  // Asked after tokens were added.
  virtual std::optional<Eviction> evict(const RetentionState&) const { return std::nullopt; }
  // Turns one head's sums of attention, in order of position, into what decides: the largest stay.
  virtual void rank(std::span<float> /*sums*/) const {}
};

// "full", "window:2048", "sinks:4+2044", "h2o:512", "h2o:25%", "snapkv:1024" ...
Result<std::unique_ptr<RetentionPolicy>> parse_policy(std::string_view text);
std::string_view policy_syntax();  // for help texts

// A budget of tokens, or a share of the prompt.
struct TokenBudget {
  std::int64_t tokens = 0;
  double percent = 0;
  std::int64_t of(std::int64_t prompt) const;
  std::string text() const;
};
Result<TokenBudget> parse_budget(std::string_view policy, std::string_view text);
Result<std::int64_t> parse_count(std::string_view policy, std::string_view text);

// What each policy file provides: builds it from what stands behind the colon.
using PolicyFactory = Result<std::unique_ptr<RetentionPolicy>> (*)(std::string_view arguments);
Result<std::unique_ptr<RetentionPolicy>> make_full(std::string_view arguments);
Result<std::unique_ptr<RetentionPolicy>> make_window(std::string_view arguments);
Result<std::unique_ptr<RetentionPolicy>> make_sinks(std::string_view arguments);
Result<std::unique_ptr<RetentionPolicy>> make_h2o(std::string_view arguments);
Result<std::unique_ptr<RetentionPolicy>> make_snapkv(std::string_view arguments);

}  // namespace quire
