#include "lab/experiments/eviction_rig.h"

#include <algorithm>

#include "core/fail.h"
#include "engine/cache_setup.h"
#include "engine/model_parts.h"
#include "model/attention_scores.h"

namespace quire::lab {
namespace {

constexpr SequenceId kPrompt = 0, kFork = 1;
constexpr std::int64_t kVoters = 32;  // as many as SnapKV asks

}  // namespace

EvictionRig::EvictionRig(std::shared_ptr<const Model> model, std::unique_ptr<KvCache> cache, const Ops& ops,
                         int threads)
    : model_(std::move(model)),
      cache_(std::move(cache)),
      pool_(threads > 0 ? threads : usable_cpus()),
      decoder_(model_->parts().config, model_->parts().weights_for(ops, pool_), ops, pool_) {}

Result<std::unique_ptr<EvictionRig>> EvictionRig::create(const Workbench& bench) {
  QUIRE_TRY(const Ops* ops, find_ops(kLabKernels));
  QUIRE_TRY(const CacheSetup setup, set_up_cache({}));
  CacheOptions options = cache_options(setup, bench.model()->parts().config);
  options.share_prefixes = false;
  QUIRE_TRY(std::unique_ptr<KvCache> cache, KvCache::create(options));
  return std::unique_ptr<EvictionRig>(new EvictionRig(bench.model(), std::move(cache), *ops, bench.threads()));
}

Result<std::span<const float>> EvictionRig::compute(SequenceId id, std::span<const TokenId> tokens, std::int64_t scored,
                                                    std::vector<float>* sums, const KvVisibility& visible,
                                                    bool with_logits) {
  const std::int64_t count = std::ssize(tokens), first = cache_->length(id);
  const StepWant want{id, count};
  QUIRE_TRY(StepPlan plan, cache_->prepare({&want, 1}));
  make_copies(plan, cache_->layouts());
  std::vector<KvTable>& tables = plan.tables[0];
  for (KvTable& table : tables) table.visible = narrower(table.visible, visible);
  AttentionScores scores;
  if (sums != nullptr) {
    sums->assign(static_cast<std::size_t>(score_count(cache_->layouts(), cache_->layer_map(), tables, first + count)),
                 0.f);
    scores = {scored, sums->data()};
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t i = 0; with_logits && i < count; ++i) rows.push_back(i);
  const BatchSequence sequence{count, first, tables, scores};
  const auto logits = decoder_.forward({tokens, {&sequence, 1}, cache_->layouts(), cache_->layer_map(), rows});
  cache_->commit(id, tokens);
  return logits;
}

Result<void> EvictionRig::prefill(std::span<const TokenId> prompt) {
  cache_->clear();
  QUIRE_CHECK_OK(cache_->open(kPrompt));
  prompt_ = std::ssize(prompt);
  const std::int64_t before = std::max<std::int64_t>(prompt_ - kVoters, 0);
  std::vector<float> earlier;
  if (before > 0) {
    QUIRE_CHECK_OK(compute(kPrompt, prompt.first(static_cast<std::size_t>(before)), before, &earlier, {}, false));
  }
  QUIRE_CHECK_OK(
      compute(kPrompt, prompt.subspan(static_cast<std::size_t>(before)), prompt_ - before, &votes_, {}, false));
  // The voters' tokens were not there when the others looked.
  all_ = votes_;
  const std::size_t heads = votes_.size() / static_cast<std::size_t>(prompt_);
  for (std::size_t head = 0; head < heads; ++head) {
    for (std::size_t t = 0; t < static_cast<std::size_t>(before); ++t) {
      all_[head * static_cast<std::size_t>(prompt_) + t] += earlier[head * static_cast<std::size_t>(before) + t];
    }
  }
  return {};
}

Result<EvictionRig::Kept> EvictionRig::apply(const std::string& policy) {
  QUIRE_TRY(const auto chosen, policy_for(model_->parts().config, policy));
  if (cache_->contains(kFork)) cache_->release(kFork);
  QUIRE_CHECK_OK(cache_->fork(kPrompt, kFork));
  Kept kept;
  kept.visible = chosen->visible();
  const RetentionState before{0, prompt_, 0, 0};
  const std::int64_t scored = chosen->scored_rows(before, prompt_);
  if (scored > 0) cache_->add_scores(kFork, scored > kVoters ? all_ : votes_);
  if (const auto eviction = chosen->evict(cache_->retention_state(kFork, prompt_))) {
    QUIRE_CHECK_OK(cache_->evict(kFork, *eviction, *chosen));
  }
  // What a window hides it would have given back.
  kept.bytes = kept.visible.window > 0 ? cache_->estimate_bytes(prompt_, kept.visible) : cache_->held_bytes(kFork);
  return kept;
}

Result<std::span<const float>> EvictionRig::go_on(std::span<const TokenId> tokens, const Kept& kept) {
  return compute(kFork, tokens, 0, nullptr, kept.visible, true);
}

}  // namespace quire::lab
