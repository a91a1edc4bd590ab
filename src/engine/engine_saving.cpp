// Cached pages to a file and back. The caller's thread reads, writes and checks digests; the engine's lock is held for
// the copy of one page at a time, so that steps go on between them.
#include "core/check.h"
#include "core/durable_file.h"
#include "core/fail.h"
#include "engine/engine_state.h"
#include "engine/model_parts.h"
#include "quire/version.h"

namespace quire {
namespace {

// Takes over the whole blocks of `tokens` that are cached: so many.
std::int64_t take_whole_blocks(KvCache& cache, SequenceId sequence, std::span<const TokenId> tokens) {
  std::vector<TokenId> whole(tokens.begin(), tokens.end());
  whole.resize(whole.size() / kPageTokens * kPageTokens);
  whole.push_back(0);  // one token is always left to compute
  const std::int64_t found = cache.reuse(sequence, whole);
  return *cache.rollback(sequence, found / kPageTokens * kPageTokens) / kPageTokens;
}

Error with_name(const Error& error, const std::string& path) { return fail(error.code, "{}: {}", path, error.message); }

}  // namespace

SequenceId Scheduler::hold(const std::string& salt, const KvVisibility& visible) {
  const SequenceId sequence = next_sequence_++;
  const auto opened = cache_.open(sequence, {salt, visible});
  QUIRE_ASSERT(opened.ok(), "sequence ids are never used twice");
  // No policy has this name: nobody goes on from here, and nobody can unpin it.
  kept_.add(sequence, {salt, ""}, Clock::time_point::max());
  return sequence;
}

void Scheduler::let_go(SequenceId sequence) { kept_.release(sequence); }

PageSpace Engine::State::page_space() const {
  return quire::page_space({model->parts().fingerprint(), std::string(ops.name), QUIRE_VERSION}, *cache);
}

Result<void> Engine::State::check_saves(const Job& job) const {
  if (!cache->shares_prefixes()) {
    return fail(Errc::unsupported, "{}",
                options.share_prefixes ? "every layer of this model has a window: no page is found again by its tokens"
                                       : "the cache shares no prefixes; start it with another --cache-strategy");
  }
  if (!job.scored) return {};
  return fail(Errc::unsupported,
              "cache policy {}: what it keeps of a prompt is found by no other; use full, window or sinks",
              job.policy->name());
}

// A sequence for pages on their way, let go at the end, whatever that is.
class Engine::State::Hold {
 public:
  Hold(State& state, const std::string& salt, const KvVisibility& visible)
      : state_(state), sequence_(state.locked([&] { return state.scheduler.hold(salt, visible); })) {}
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() {
    state_.locked([&] { state_.scheduler.let_go(sequence_); });
    state_.wake();  // there may be room for somebody
  }

  // Under the lock: false where the sequence had to leave.
  template <class Use>
  bool with(Use&& use) const {
    return state_.locked([&] { return state_.cache->contains(sequence_) && use(*state_.cache, sequence_); });
  }

 private:
  State& state_;
  SequenceId sequence_;
};

// What came of it, asked as a request would.
SavedPrompt Engine::State::looked_up(const Job& job, SavedPrompt saved, Clock::time_point start) {
  const CacheLookup found = locked([&] { return scheduler.look_up(job); });
  saved.prompt_tokens = found.prompt_tokens;
  saved.reusable_tokens = found.cached_tokens;
  saved.miss = found.miss;
  saved.ms = milliseconds_since(start);
  return saved;
}

Result<SavedPrompt> Engine::State::save(const Job& job, const std::string& path) {
  const PageSpace space = page_space();
  const std::vector<TokenId>& tokens = job.branches[0].tokens;
  const Hold hold(*this, job.request.salt, job.policy->visible());
  std::int64_t blocks = 0;
  hold.with([&](KvCache& kv, SequenceId id) {
    blocks = take_whole_blocks(kv, id, tokens);
    return true;
  });
  if (blocks == 0) {
    return fail(Errc::not_found,
                "no whole page ({} tokens) of the prompt's {} tokens is cached: answer it or pin it, then save it",
                kPageTokens, job.prompt);
  }
  QUIRE_TRY(DurableFile file, DurableFile::create(path));
  SavedPromptWriter writer(space, [&](std::span<const std::byte> bytes) { return file.write(bytes); });
  QUIRE_CHECK_OK(writer.begin(tokens, blocks));
  std::vector<std::byte> page;
  for (const PagePlace& place : PrefixPages::places(space.layouts, blocks)) {
    const bool copied = hold.with([&](const KvCache& kv, SequenceId id) {
      page = kv.sealed_page(id, place);
      return true;
    });
    if (!copied) {
      return fail(Errc::busy, "{}: the room of its pages was needed while they were saved; try again later", path);
    }
    QUIRE_CHECK_OK(writer.add(place, page));
  }
  QUIRE_CHECK_OK(file.commit());
  SavedPrompt saved;
  saved.saved_tokens = blocks * kPageTokens;
  saved.bytes = file.bytes();
  return saved;
}

Result<SavedPrompt> Engine::State::restore(SavedPromptReader& reader, const std::string& salt) {
  SavedPrompt saved;
  saved.saved_tokens = reader.blocks() * kPageTokens;
  // Seeing everything: requests of other policies take over what those do not affect.
  const Hold hold(*this, salt, {});
  const auto whole = std::span(reader.tokens()).first(static_cast<std::size_t>(saved.saved_tokens));
  std::int64_t there = 0;
  hold.with([&](KvCache& kv, SequenceId id) {
    there = take_whole_blocks(kv, id, whole);
    return true;
  });
  saved.cached_tokens = there * kPageTokens;
  while (reader.next() < reader.blocks()) {
    const std::int64_t block = reader.next();
    QUIRE_TRY(const std::vector<PageBytes> pages, reader.read_block());
    if (block < there) continue;
    const bool added = hold.with(
        [&](KvCache& kv, SequenceId id) { return kv.append_sealed(id, reader.block_tokens(block), pages).ok(); });
    if (!added) break;
    saved.restored_tokens += kPageTokens;
  }
  hold.with([](KvCache& kv, SequenceId id) {
    kv.checkpoint(id);
    return true;
  });
  return saved;
}

Result<SavedPrompt> Engine::save(Request request, const std::string& path) {
  const auto start = Clock::now();
  QUIRE_TRY(const auto job, state_->accept(std::move(request)));
  QUIRE_CHECK_OK(state_->check_saves(*job));
  QUIRE_TRY(const SavedPrompt saved, state_->save(*job, path));
  return state_->looked_up(*job, saved, start);
}

Result<SavedPrompt> Engine::restore(Request request, const std::string& path) {
  const auto start = Clock::now();
  const PageSpace space = state_->page_space();
  QUIRE_TRY(SequentialFile file, SequentialFile::open(path));
  auto reader = SavedPromptReader::open(
      space, [&](std::span<std::byte> into) { return file.read(into); }, file.bytes());
  if (!reader.ok()) return with_name(reader.error(), path);
  request.tokens = reader->tokens();
  QUIRE_TRY(const auto job, state_->accept(std::move(request)));
  QUIRE_CHECK_OK(state_->check_saves(*job));
  auto saved = state_->restore(*reader, job->request.salt);
  if (!saved.ok()) return with_name(saved.error(), path);
  saved->bytes = file.bytes();
  return state_->looked_up(*job, *saved, start);
}

}  // namespace quire
