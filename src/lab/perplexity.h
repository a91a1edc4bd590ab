// How well a model predicts a text, and how much a cache format changes its predictions.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "quire/session.h"

namespace quire {

struct Divergence {  // from the base's predictions to the session's, per scored token, in nats
  double mean = 0;
  double median = 0;
  double p99 = 0;
  double same_top_percent = 0;  // how often the likeliest token is the same
  // By how much the loss rises, token by token, and the standard error of that: much smaller than the perplexity's own,
  // since both say the same of most tokens. The perplexity is exp(loss_rise) times the base's.
  double loss_rise = 0, loss_rise_error = 0;
};

struct PerplexityReport {
  std::int64_t chunks = 0;          // measured so far
  std::int64_t planned_chunks = 0;  // of all that there will be
  std::int64_t ctx = 0;
  std::int64_t scored_tokens = 0;
  double perplexity = 0;
  double standard_error = 0;
  std::optional<Divergence> divergence;
};

struct PerplexityOptions {
  std::int64_t ctx = 512;
  std::int64_t chunks = 0;      // 0: as many as the text has
  std::int64_t skip = 0;        // tokens of the text to leave out first
  std::int64_t stride = 0;      // from one chunk's start to the next; 0: ctx
  std::int64_t score_last = 0;  // predictions scored at the end of each chunk; 0: its second half
  Session* base = nullptr;      // measures the divergence from it as well
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const PerplexityReport& so_far)> on_chunk;
  // Every scored token: its index in the text and its negative log likelihood in nats.
  std::function<void(std::int64_t index, double loss)> on_token;
};

// llama.cpp's method, so that numbers compare: the text is cut into chunks of ctx tokens, each
// starts from an empty cache with BOS first where the model asks for it, and the predictions of
// the second half of each chunk are scored.
Result<PerplexityReport> perplexity(const Model& model, Session& session, std::span<const TokenId> tokens,
                                    const PerplexityOptions& options);
// The same for several sessions, chunk by chunk, so that what the base predicts is computed once. on_chunk and
// on_token speak of the first. Where there is a base, its own report comes after theirs.
Result<std::vector<PerplexityReport>> perplexities(const Model& model, std::span<Session* const> sessions,
                                                   std::span<const TokenId> tokens, const PerplexityOptions& options);

// From the predictions of one set of logits to those of another, in nats.
double kl_divergence(std::span<const float> base, std::span<const float> other);
// How little the logits expected this token: its negative log likelihood, in nats.
double loss(std::span<const float> logits, TokenId token);

}  // namespace quire
