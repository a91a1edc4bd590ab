#include "engine/draft_model.h"

#include <algorithm>

#include "core/check.h"
#include "core/fail.h"
#include "engine/common_prefix.h"
#include "model/kv_groups.h"

namespace quire {

Result<std::unique_ptr<DraftModel>> DraftModel::create(std::shared_ptr<const Model> model, const Model& large,
                                                       const Ops& ops, ThreadPool& pool, std::uint64_t bytes) {
  const Tokenizer &own = model->parts().tokenizer, &other = large.parts().tokenizer;
  if (own.size() != other.size()) {
    return fail(Errc::invalid_argument, "the draft model has {} tokens, the model {}; they must have the same",
                own.size(), other.size());
  }
  for (TokenId token = 0; static_cast<std::size_t>(token) < own.size(); ++token) {
    if (own.piece(token) == other.piece(token)) continue;
    return fail(Errc::invalid_argument,
                "token {} of the draft model is another than the model's; they must be the same", token);
  }
  KvGroups groups = kv_groups(model->parts().config, {});
  CacheOptions options;
  options.groups = std::move(groups.groups);
  options.layer_map = std::move(groups.layer_map);
  options.budget_bytes = bytes;
  QUIRE_TRY(auto cache, KvCache::create(options));
  return std::unique_ptr<DraftModel>(new DraftModel(std::move(model), ops, pool, std::move(cache)));
}

DraftModel::DraftModel(std::shared_ptr<const Model> model, const Ops& ops, ThreadPool& pool,
                       std::unique_ptr<KvCache> cache)
    : model_(std::move(model)),
      decoder_(model_->parts().config, model_->parts().weights_for(ops, pool), ops, pool),
      cache_(std::move(cache)) {}

// The branch's sequence, brought back to where it agrees with the tokens, with one left to compute.
SequenceId DraftModel::sequence_of(const Branch& branch, std::span<const TokenId> tokens) {
  const auto [entry, fresh] = entries_.try_emplace(branch.id, Entry{next_sequence_, 0});
  entry->second.used = ++clock_;
  const SequenceId id = entry->second.sequence;
  if (fresh) {
    ++next_sequence_;
    const auto opened = cache_->open(id);
    QUIRE_ASSERT(opened.ok(), "sequence ids are never used twice");
    (void)cache_->reuse(id, tokens);
    return id;
  }
  const std::int64_t shared = common_prefix(cache_->tokens(id), tokens);
  (void)cache_->rollback(id, std::min(shared, std::ssize(tokens) - 1));
  return id;
}

bool DraftModel::release_oldest(std::span<const Asked> but) {
  auto oldest = entries_.end();
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (std::ranges::find(but, at->second.sequence, &Asked::sequence) != but.end()) continue;
    if (oldest == entries_.end() || at->second.used < oldest->second.used) oldest = at;
  }
  if (oldest == entries_.end()) return false;
  cache_->release(oldest->second.sequence);
  entries_.erase(oldest);
  return true;
}

bool DraftModel::advance(std::vector<Asked>& asked) {
  constexpr std::int64_t kChunk = 512;
  const auto vocabulary = static_cast<std::size_t>(model_->parts().config.vocabulary);
  while (true) {
    std::vector<StepWant> wants;
    std::vector<Asked*> who;
    for (Asked& one : asked) {
      const std::int64_t lacking = std::ssize(one.tokens) - cache_->length(one.sequence);
      if (lacking == 0) continue;
      wants.push_back({one.sequence, std::min(lacking, kChunk)});
      who.push_back(&one);
    }
    if (wants.empty()) return true;
    auto plan = cache_->prepare(wants);
    while (!plan.ok() && release_oldest(asked)) plan = cache_->prepare(wants);
    if (!plan.ok()) return false;
    make_copies(*plan, cache_->layouts());
    std::vector<TokenId> tokens;
    std::vector<BatchSequence> sequences;
    std::vector<std::int64_t> last_rows;
    std::vector<Asked*> drawing;
    for (std::size_t i = 0; i < who.size(); ++i) {
      const std::int64_t first = cache_->length(who[i]->sequence);
      sequences.push_back({wants[i].tokens, first, plan->tables[i], {}});
      const auto from = who[i]->tokens.begin() + first;
      tokens.insert(tokens.end(), from, from + wants[i].tokens);
      if (first + wants[i].tokens < std::ssize(who[i]->tokens)) continue;
      last_rows.push_back(std::ssize(tokens) - 1);
      drawing.push_back(who[i]);
    }
    const auto logits = decoder_.forward({tokens, sequences, cache_->layouts(), cache_->layer_map(), last_rows});
    for (std::size_t i = 0; i < who.size(); ++i) {
      const auto first = static_cast<std::size_t>(cache_->length(who[i]->sequence));
      cache_->commit(who[i]->sequence,
                     std::span(who[i]->tokens).subspan(first, static_cast<std::size_t>(wants[i].tokens)));
    }
    for (std::size_t i = 0; i < drawing.size(); ++i) {
      Work& work = *drawing[i]->work;
      Sampler& sampler = work.branch->draft_sampler;
      const auto chances = sampler.distribution(logits.subspan(i * vocabulary, vocabulary), drawing[i]->tokens);
      const TokenId guess = sampler.draw(chances);
      work.drafts.push_back(guess);
      work.draft_chances.emplace_back(chances.begin(), chances.end());
      // The last guess need not be computed.
      if (work.drafts.size() < drawing[i]->wanted) drawing[i]->tokens.push_back(guess);
    }
  }
}

void DraftModel::propose(std::span<Work> works) {
  std::vector<Asked> asked;
  for (Work& work : works) {
    if (work.job->request.speculation != Speculation::draft_model || work.drafts.empty()) continue;
    const std::int64_t context = model_->parts().config.context;
    const std::int64_t room = context - std::ssize(work.branch->tokens);
    const auto wanted = static_cast<std::size_t>(std::clamp<std::int64_t>(room, 0, std::ssize(work.drafts)));
    work.drafts.clear();
    if (wanted == 0) continue;
    asked.push_back({&work, sequence_of(*work.branch, work.branch->tokens), work.branch->tokens, wanted});
  }
  // Where room is short, the guesses so far are what there is.
  (void)advance(asked);
}

}  // namespace quire
