// A request while the engine has it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cache/kv_cache.h"
#include "cache/policy/policy.h"
#include "core/clock.h"
#include "engine/beam_search.h"
#include "engine/draft_gate.h"
#include "engine/prompt_lookup.h"
#include "engine/sampler.h"
#include "engine/stop_matcher.h"
#include "engine/stream_state.h"
#include "grammar/constraint.h"
#include "model/decoder.h"
#include "quire/engine.h"
#include "text/stream_decoder.h"

namespace quire {

// One answer in the making: a sequence of tokens of which the cache holds a beginning. What is
// missing of it is computed, however many tokens that are; then the next token is drawn.
struct Branch {
  Branch(int choice_, std::vector<TokenId> prompt, const SamplingOptions& sampling, const Tokenizer& tokenizer,
         std::vector<std::string> stops)
      : choice(choice_),
        tokens(std::move(prompt)),
        sampler(sampling),
        draft_sampler(sampling),
        text(tokenizer),
        stop(std::move(stops)) {}

  int choice;
  std::vector<TokenId> tokens;  // the prompt and what was generated
  std::uint64_t id = 0;         // of no other branch
  Sampler sampler;
  Sampler draft_sampler;  // of a draft model's guesses
  StreamDecoder text;
  StopMatcher stop;
  std::optional<Constraint> constraint;
  PromptLookup lookup;
  DraftGate drafts;
  SequenceId sequence = 0;          // in the cache, while the request runs
  std::optional<StopReason> ended;  // nothing more is drawn
  bool done = false;                // and nothing more is held
  double log_probability = 0;       // of a beam
};

struct Job {
  Request request;
  std::shared_ptr<Stream::State> stream;
  std::shared_ptr<const RetentionPolicy> policy;
  bool scored = false;  // the policy looks at attention: see Scheduler::chunk
  std::uint64_t arrival = 0;
  std::int64_t prompt = 0;                   // tokens
  std::int64_t limit = 0;                    // tokens a sequence may have
  std::shared_ptr<CompiledGrammar> grammar;  // none: any text
  std::vector<Branch> branches;              // one until the prompt is computed
  bool running = false;                      // its sequences are open in the cache
  bool paused = false;                       // its reader has fallen behind
  std::optional<BeamSearch> beams;
  std::int64_t next_scored = 0;   // prompt token whose log-probability comes next
  std::vector<double> embedding;  // summed up so far
  bool embedded = false;          // and sent
  std::int64_t branch_point = 0;  // others wait for the prompt's pages up to here

  RequestReport report;
  Clock::time_point submitted, admitted, first_token, last_token;
  std::vector<double> gaps;  // between tokens, of the first choice

  bool scores_prompt() const { return request.score_from >= 0 && next_scored < prompt; }
  // So many of a branch's first tokens may come from the cache: the rest has to go through the model.
  std::int64_t reusable(const Branch& branch) const {
    if (scored || (request.embedding == Embedding::mean && !embedded)) return 0;
    return scores_prompt() ? next_scored : std::ssize(branch.tokens);
  }
  std::int64_t sequences() const { return std::max(request.choices, request.beams); }  // at the most
  bool done() const {
    for (const Branch& branch : branches) {
      if (!branch.done) return false;
    }
    return true;
  }
  // Whether this one goes before the other.
  bool before(const Job& other) const {
    return request.priority != other.request.priority ? request.priority > other.request.priority
                                                      : arrival < other.arrival;
  }
};

// The first tokens of `job`'s prompt once more, to be answered anew.
Branch new_branch(const Job& job, const Tokenizer& tokenizer, int choice);

// What one branch computes in a step: some of the tokens it lacks, and guesses at what follows.
struct Work {
  Job* job;
  Branch* branch;
  std::int64_t first;                                   // position of the first token computed
  std::int64_t tokens;                                  // of the branch
  std::vector<TokenId> drafts;                          // after its last token; a draft model fills in as many
  std::vector<std::vector<TokenChance>> draft_chances;  // what they were drawn from; none: they were not drawn
  AttentionScores scores;                               // where the policy asks
  std::vector<float> score_sums;                        // [model layers, kv_heads, cached tokens]
  std::int64_t logits_from;                             // rows from this one on get logits
  std::int64_t hidden_from;       // and from this one on, without drafts, what the model made of their tokens
  std::int64_t first_logits = 0;  // where they are
  std::int64_t first_hidden = 0;
  std::optional<TokenId> drawn;  // ahead of the commit

  std::int64_t rows() const { return tokens + std::ssize(drafts); }
  // Where the logits of the branch's last token are, for a work that is complete.
  std::int64_t last_logits() const { return first_logits + tokens - 1 - logits_from; }
  // Nothing of the branch is lacking after this: the next token can be drawn.
  bool complete() const { return first + tokens == std::ssize(branch->tokens); }
};

struct Step {
  std::vector<Work> works;
  StepPlan plan;
  std::uint64_t fresh_bytes = 0;  // taken from the system for it
  bool empty() const { return works.empty(); }
};

}  // namespace quire
