// One sequence on a model: generates from a prompt, and keeps what it computed, so that a later
// prompt with the same beginning computes only what is new.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quire/model.h"
#include "quire/result.h"
#include "quire/sampling.h"
#include "quire/token.h"

namespace quire {

// How keys and values are kept. Formats and policies are spelled as on the command line.
struct CacheSettings {
  std::string type_k = "f16";
  std::string type_v = "f16";
  std::string policy = "full";
  std::string strategy = "always";  // or long:N, adaptive, off: when to cache at all
  std::uint64_t bytes = 0;          // most the cache may take; 0: what the machine has
  std::int64_t sinks = -1;          // so many first tokens stay in 16 bits, in whole pages; -1: as the format likes
  std::int64_t recent = -1;         // and so many recent ones
  std::string layout = "paged";     // or "flat": one buffer for the whole context, f16, f32 or bf16
};

struct SessionOptions {
  std::int64_t context = 4096;   // tokens a sequence may have; policies with a window know no end
  int threads = 0;               // 0: as many as this process may use
  std::string kernels = "auto";  // the fastest; "exact": those that round nothing to 8 bits
  CacheSettings cache;
  std::int64_t prefill_chunk = 512;  // tokens per forward pass over a prompt
};

struct GenerateOptions {
  std::int64_t max_tokens = -1;  // -1: until the model ends or the context is full
  bool ignore_end = false;       // goes on where the model would end
  bool use_cache = true;         // false: recompute the whole sequence for every token
  SamplingOptions sampling;
  const std::atomic<bool>* cancel = nullptr;                     // stop soon after it turns true
  std::function<void(TokenId, std::string_view text)> on_token;  // valid UTF-8; empty while a character is incomplete
  std::function<void(std::int64_t done, std::int64_t total)> on_prefill;
};

enum class StopReason { end_of_generation, max_tokens, context_full, cancelled, stop_string };

struct Timings {                   // milliseconds
  std::int64_t prompt_tokens = 0;  // computed
  std::int64_t cached_tokens = 0;  // taken from the cache
  std::int64_t generated_tokens = 0;
  double prompt_ms = 0;
  double generated_ms = 0;
  double first_token_ms = 0;
  double between_tokens_p50_ms = 0;
  double between_tokens_p99_ms = 0;
};

struct CacheReport {
  bool off = false;  // the last generation went without
  std::string policy = "full";
  std::string type_k, type_v;
  std::int64_t page_tokens = 0;
  std::int64_t tokens = 0;
  std::uint64_t bytes = 0;  // held by the allocator for cached tokens; 0 after a generation without cache
  std::uint64_t bytes_per_token = 0;
  std::int64_t pages_open = 0, pages_sealed = 0, pages_shared = 0, pages_free = 0;
};

struct Generation {
  std::vector<TokenId> tokens;  // without the one that ended it
  std::string text;
  StopReason stop = StopReason::end_of_generation;
  Timings timings;
  std::int64_t computed_tokens = 0;  // token positions that went through the model
};

class Session {
 public:
  static Result<Session> create(std::shared_ptr<const Model> model, const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  Result<Generation> generate(std::span<const TokenId> prompt, const GenerateOptions& options);

  // The two phases by themselves, for those who choose tokens their own way: the logits after the last
  // token, valid until the next call. Both go on from what is cached.
  Result<std::span<const float>> prefill(std::span<const TokenId> tokens);
  Result<std::span<const float>> decode(TokenId token);
  std::span<const TokenId> cached() const;
  // Forgets tokens from `length` on, or from an earlier page border where the format keeps no way back:
  // the length reached.
  Result<std::int64_t> rollback(std::int64_t length);
  // The same sequence once more: shares what is cached until one of the two goes on.
  Result<Session> fork() const;

  // Logits after each of tokens[from ...], computed from an empty cache: visit(i, logits) sees what
  // follows tokens[i].
  using LogitVisitor = std::function<void(std::int64_t index, std::span<const float> logits)>;
  Result<void> evaluate(std::span<const TokenId> tokens, std::int64_t from, const LogitVisitor& visit);

  void reset();  // forget everything computed
  CacheReport cache() const;
  std::int64_t context() const;  // tokens a sequence may have
  int threads() const;
  std::string_view kernels() const;

 private:
  friend class CacheFaults;  // for experiments; not installed
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quire
