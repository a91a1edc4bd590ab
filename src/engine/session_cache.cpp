#include "engine/session_cache.h"

#include <algorithm>

#include "core/check.h"
#include "core/fail.h"
#include "engine/cache_setup.h"
#include "model/attention_scores.h"

namespace quire {
SequenceId OpenSequence::unused(const KvCache& cache) {
  SequenceId id = 0;
  while (cache.contains(id)) ++id;
  return id;
}

Result<OpenSequence> OpenSequence::open(std::shared_ptr<KvCache> cache, const SequenceOptions& options) {
  const SequenceId id = unused(*cache);
  QUIRE_CHECK_OK(cache->open(id, options));
  return OpenSequence(std::move(cache), id);
}

Result<OpenSequence> OpenSequence::fork() const {
  const SequenceId id = unused(*cache_);
  QUIRE_CHECK_OK(cache_->fork(id_, id));
  return OpenSequence(cache_, id);
}

Result<SessionCache> SessionCache::create(const ModelConfig& config, const SessionOptions& options) {
  SessionCache cache;
  QUIRE_TRY(const CacheSetup setup, set_up_cache(options.cache));
  QUIRE_TRY(cache.policy_, policy_for(config, options.cache.policy));
  cache.settings_ = setup.settings;
  cache.settings_.policy = cache.policy_->name();
  cache.strategy_ = setup.strategy;
  cache.limit_ = token_limit(config, *cache.policy_, options.context);
  if (cache.limit_ > config.context && cache.limit_ == options.context) {
    return fail(Errc::invalid_argument,
                "a context of {} tokens; {} was trained for {}, which is the most (a longer text can be streamed with "
                "--cache-policy sinks:4+{})",
                options.context, config.name, config.context, config.context / 4 - 4);
  }

  const CacheSettings& settings = cache.settings_;
  CacheOptions paged = cache_options(setup, config);
  if (settings.layout == "flat") {
    if (settings.policy != "full" || setup.choice.keys != setup.choice.values) {
      return fail(Errc::invalid_argument,
                  "the flat cache keeps everything, keys and values alike; for '{}', {} and {} use the paged one",
                  settings.policy, settings.type_k, settings.type_v);
    }
    QUIRE_TRY(FlatCache flat, FlatCache::create(config.kv_geometry(), options.context, setup.choice.keys));
    cache.flat_.emplace(std::move(flat));
    // All layers lie in one buffer; groups differ only in what may be seen.
    for (const KvGroupSpec& group : paged.groups) {
      cache.groups_.push_back(cache.flat_->layout(group.visible));
      cache.tables_.push_back(cache.flat_->table(group.visible));
    }
    for (std::size_t i = 0; i < paged.layer_map.size(); ++i) {
      cache.layers_.push_back({paged.layer_map[i].group, static_cast<std::int64_t>(i)});
    }
    return cache;
  }
  if (settings.layout != "paged") {
    return fail(Errc::invalid_argument, "cache layout '{}' is not known; expected paged or flat", settings.layout);
  }
  paged.share_prefixes = false;  // forks share; whose prefixes to keep is an engine's question
  QUIRE_TRY(std::shared_ptr<KvCache> pages, KvCache::create(paged));
  QUIRE_TRY(cache.sequence_, OpenSequence::open(std::move(pages), {{}, cache.policy_->visible()}));
  cache.groups_.assign(cache.paged().layouts().begin(), cache.paged().layouts().end());
  cache.layers_.assign(cache.paged().layer_map().begin(), cache.paged().layer_map().end());
  return cache;
}

Result<SessionCache> SessionCache::fork() const {
  if (flat_) return fail(Errc::unsupported, "the flat cache holds one sequence and cannot fork; use the paged one");
  SessionCache copy;
  QUIRE_TRY(copy.sequence_, sequence_.fork());
  copy.settings_ = settings_;
  copy.limit_ = limit_;
  copy.strategy_ = strategy_;
  copy.policy_ = policy_;
  copy.groups_ = groups_;
  copy.layers_ = layers_;
  copy.tokens_ = tokens_;
  return copy;
}

Result<BatchSequence> SessionCache::prepare(std::int64_t count, std::int64_t prompt) {
  const std::int64_t first = length();
  if (flat_) {
    if (first + count + write_shift_ > flat_->max_length()) {
      return fail(Errc::context_full, "the context of {} tokens is full; raise -c/--ctx-size", limit_);
    }
    return BatchSequence{count, first, tables_, {}, write_shift_};
  }
  const StepWant want{sequence_.id(), count};
  QUIRE_TRY(StepPlan plan, paged().prepare({&want, 1}));
  make_copies(plan, groups_);
  tables_ = plan.tables[0];
  AttentionScores scores;
  const RetentionState state = paged().retention_state(sequence_.id(), prompt);
  scores.rows = policy_->scored_rows(state, count);
  if (scores.rows > 0) {
    const std::int64_t size = score_count(groups_, layers_, tables_, first + count);
    scores_.assign(static_cast<std::size_t>(size), 0.f);
    scores.sums = scores_.data();
  } else {
    scores_.clear();
  }
  return BatchSequence{count, first, tables_, scores};
}

Result<void> SessionCache::commit(std::span<const TokenId> tokens, std::int64_t prompt) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (flat_) return flat_->advance(std::ssize(tokens));
  paged().commit(sequence_.id(), tokens);
  if (!scores_.empty()) paged().add_scores(sequence_.id(), scores_);
  if (const auto eviction = policy_->evict(paged().retention_state(sequence_.id(), prompt))) {
    QUIRE_CHECK_OK(paged().evict(sequence_.id(), *eviction, *policy_));
  }
  return {};
}

void SessionCache::rollback(std::int64_t length) {
  length = std::min(length, this->length());
  if (flat_) {
    (void)flat_->rollback(length);  // fails only for negative lengths
  } else {
    length = *paged().rollback(sequence_.id(), length);
  }
  tokens_.resize(static_cast<std::size_t>(length));
}

CacheReport SessionCache::report() const {
  CacheReport report;
  report.policy = settings_.policy;
  report.type_k = settings_.type_k;
  report.type_v = settings_.type_v;
  report.tokens = length();
  if (flat_) {
    report.page_tokens = flat_->max_length();
    report.bytes_per_token = flat_->bytes_per_token();
    report.bytes = flat_->bytes();
    report.pages_open = 1;  // a flat cache is one page that never fills
    return report;
  }
  const CacheStats stats = paged().stats();
  report.page_tokens = kPageTokens;
  report.bytes_per_token = paged().bytes_per_token();
  report.bytes = stats.held_bytes();
  report.pages_open = stats.open_pages;
  report.pages_sealed = stats.sealed_pages;
  report.pages_shared = stats.shared_pages;
  report.pages_free = stats.free_pages;
  return report;
}

}  // namespace quire
