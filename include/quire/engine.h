// Many requests on one model and one cache. Requests are submitted from any thread and answered as
// streams; one thread of the engine's own computes them together, and prompts that begin alike
// share what was computed.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quire/cache_view.h"
#include "quire/model.h"
#include "quire/result.h"
#include "quire/sampling.h"
#include "quire/session.h"
#include "quire/token.h"

namespace quire {

struct EngineOptions {
  std::int64_t context = 0;         // tokens a sequence may have; 0: as many as the model was trained for
  int threads = 0;                  // 0: as many as this process may use
  std::string kernels = "auto";     // the fastest; "exact": those that round nothing to 8 bits
  CacheSettings cache;              // its policy is that of requests that name none
  std::int64_t max_running = 64;    // sequences computed together
  std::int64_t max_waiting = 1024;  // requests in line; more are refused
  std::int64_t max_batch = 512;     // tokens of one step
  // How long a step's prompts may hold up those who generate; 0: until steps take 2.1 times as long as before.
  double prefill_budget_ms = 0;
  std::int64_t stream_tokens = 256;  // a reader may fall behind by so many; then its request pauses
  bool share_prefixes = true;
  std::shared_ptr<const Model> draft;  // a smaller model of the same vocabulary that guesses ahead
  bool poison = false;                 // fresh pages are filled with NaN: for tests
};

enum class Speculation {
  off,
  prompt_lookup,  // guesses that what followed these words before follows again
  draft_model,    // asks EngineOptions::draft
};

// What an answer must look like; it is always complete within max_tokens.
struct OutputFormat {
  enum class Kind { text, json, schema, regex, gbnf };
  Kind kind = Kind::text;
  std::string source;  // of the last three
};

enum class Embedding {
  none,
  mean,  // over all tokens of the prompt
  last,  // of its last token
};

struct Request {
  std::vector<TokenId> tokens;  // the prompt, or
  std::string text;             // its text, where there are no tokens

  SamplingOptions sampling;
  std::int64_t max_tokens = -1;   // -1: until the model ends or the context is full
  std::vector<std::string> stop;  // ends before any of these
  bool ignore_end = false;        // goes on where the model would end
  int choices = 1;                // so many answers to the one prompt, seeds counting up
  int beams = 1;                  // above 1: beam search; the best `choices` come when all are done
  int top_logprobs = -1;          // with each token its log-probability, and so many alternatives'; -1: none
  OutputFormat format;
  Speculation speculation = Speculation::off;
  // Prompt tokens from this one on come first in the stream, with their log-probabilities; -1: none do.
  std::int64_t score_from = -1;
  Embedding embedding = Embedding::none;  // of the prompt: comes before the answer
  bool report_progress = false;           // events tell how far the prompt is

  int priority = 0;                   // higher goes first, and is preempted last
  std::string cache_policy;           // empty: the engine's
  std::string salt;                   // pages are shared only with requests of the same salt
  std::chrono::milliseconds keep{0};  // the prompt's pages stay so long, unless the room is needed
};

struct TokenProbability {
  TokenId token;
  float log_probability;
};

struct PromptProgress {
  std::int64_t total = 0;   // tokens
  std::int64_t cached = 0;  // of those, found in the cache
  std::int64_t done = 0;    // computed by now, and those found
  double ms = 0;            // since it was let in
};

// A token of one choice, or the end of it.
struct StreamEvent {
  int choice = 0;
  bool of_prompt = false;  // a token of the prompt, scored
  std::optional<TokenId> token;
  std::string text;  // valid UTF-8, held back while it may be half a character or half a stop string
  std::optional<TokenProbability> chosen;
  std::vector<TokenProbability> alternatives;  // likeliest first
  std::vector<float> embedding;                // of the prompt, in one event of its own; its length is 1
  std::optional<PromptProgress> progress;      // likewise in events of its own
  std::optional<StopReason> end;
};

// Why a prompt was not found in the cache further than it was. That another salt has it is never said:
// nobody learns what others ask.
enum class MissReason {
  none,     // all but the last token was there
  differs,  // nothing that begins so was ever computed
  evicted,  // it was there once
  policy,   // the request needs it computed: its cache policy shares no pages from there on, or it is scored
};

struct RequestReport {
  std::int64_t prompt_tokens = 0;     // all of the prompt
  std::int64_t cached_tokens = 0;     // of those, found in the cache when it was first admitted
  std::int64_t generated_tokens = 0;  // of all choices
  std::int64_t drafted_tokens = 0, accepted_tokens = 0;
  std::int64_t preemptions = 0;
  MissReason miss = MissReason::none;
  std::int64_t first_divergent = 0;  // index of the first prompt token that was not found
  double queue_ms = 0;
  double prefill_ms = 0;
  double decode_ms = 0;
  double first_token_ms = 0;  // since it was submitted
  double between_tokens_p50_ms = 0, between_tokens_p95_ms = 0, between_tokens_p99_ms = 0;
};

// How much of a prompt is in the cache at this moment.
struct CacheLookup {
  std::int64_t prompt_tokens = 0, cached_tokens = 0;
  MissReason miss = MissReason::none;
};

// What went into a file of cached pages, or came from one.
struct SavedPrompt {
  std::int64_t prompt_tokens = 0;    // all of the prompt
  std::int64_t saved_tokens = 0;     // of those, with their pages in the file
  std::int64_t cached_tokens = 0;    // restoring: of those, in the cache already
  std::int64_t restored_tokens = 0;  // and copied into it; the rest had no room
  std::int64_t reusable_tokens = 0;  // what look_up() finds of the prompt now
  MissReason miss = MissReason::none;
  std::uint64_t bytes = 0;  // of the file
  double ms = 0;
};

struct Completion {
  struct Choice {
    std::vector<TokenId> tokens;
    std::string text;
    StopReason stop = StopReason::end_of_generation;
  };
  std::vector<Choice> choices;
  std::vector<TokenProbability> prompt;  // the tokens that were scored
  std::vector<float> embedding;
  RequestReport report;
};

// The answer to one request. May outlive the engine; letting it go cancels the request.
class Stream {
 public:
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  // The next event; nothing after the last. Waits.
  std::optional<StreamEvent> next();
  // The same without waiting: nothing also where there is nothing yet; see ended().
  std::optional<StreamEvent> try_next();
  bool ended() const;  // everything was read
  // Called by the engine's thread when an event may have come; to be set before anything is read.
  // It must return at once.
  void notify(const std::function<void()>& ready);

  void cancel();
  // Reads to the end: all there was since the last event that was read.
  Result<Completion> wait();
  // After the end. An error where the engine could not go on with it.
  Result<RequestReport> report() const;

  struct State;  // for the inside of the library
  explicit Stream(std::shared_ptr<State> state);

 private:
  std::shared_ptr<State> state_;
};

// A request that the engine has.
struct RequestView {
  std::uint64_t id = 0;  // in order of arrival
  bool running = false;  // else it waits in line
  int choices = 1;
  std::int64_t prompt_tokens = 0, prompt_done = 0;  // of those, in the cache
  std::int64_t cached_tokens = 0;                   // found there at first
  std::int64_t generated_tokens = 0, max_tokens = -1;
  bool speculates = false;
};

struct EngineStats {
  std::int64_t running = 0, waiting = 0;  // requests
  std::int64_t max_running = 0;           // sequences computed together
  std::uint64_t submitted = 0, finished = 0, cancelled = 0, refused = 0, failed = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  std::uint64_t computed_tokens = 0;  // positions that went through the model
  std::uint64_t drafted_tokens = 0, accepted_tokens = 0;
  std::uint64_t steps = 0, preemptions = 0;
  std::uint64_t first_tokens = 0;  // requests that had one
  double first_token_ms = 0;       // they waited, all together
  double prefill_budget_ms = 0;    // of the last step in which prompts and answers met
  // Pages by state; used pages are held by sequences, cached ones by the index alone.
  std::int64_t pages_open = 0, pages_sealed = 0, pages_shared = 0;
  std::uint64_t bytes_used = 0, bytes_cached = 0, bytes_budget = 0;
};

class Engine {
 public:
  static Result<Engine> create(std::shared_ptr<const Model> model, const EngineOptions& options);
  // What create() would refuse of the options, whatever the model.
  static Result<void> check(const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();  // cancels what is running

  // Refuses what can never be answered, and what the line has no room for (Errc::busy).
  Result<Stream> submit(Request request);

  // What submit() would find of the prompt; nothing changes.
  Result<CacheLookup> look_up(Request request);

  // Writes the pages that are cached of the prompt to a file, which is there whole or not at all; Errc::not_found where
  // there is no whole page. Others are answered meanwhile.
  Result<SavedPrompt> save(Request request, const std::string& path);
  // Takes the pages of such a file into the cache, for requests of the same salt as `request`, which has no prompt.
  // Ends early where there is no room. Pages of another model, other kernels or formats are refused
  // (Errc::unsupported), and so is a file that was changed (Errc::bad_file).
  Result<SavedPrompt> restore(Request request, const std::string& path);

  EngineStats stats() const;
  CacheView cache_view() const;
  std::vector<RequestView> requests() const;  // those that run come first
  void forget_cached();                       // pages that no running request holds, pinned or not
  // Ends the term (Request::keep) of every request with this prompt, salt and policy: so many there were.
  Result<std::int64_t> unpin(Request request);
  const Model& model() const;
  std::int64_t context() const;

 private:
  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quire
