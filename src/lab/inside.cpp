#include "lab/inside.h"

#include "core/check.h"
#include "core/fail.h"
#include "engine/model_parts.h"
#include "lab/workbench.h"
#include "model/attention_scores.h"
#include "model/kv_groups.h"

namespace quire::lab {

Inside::Inside(std::shared_ptr<const Model> model, FlatCache cache, const Ops& ops, int threads)
    : model_(std::move(model)),
      cache_(std::move(cache)),
      pool_(threads > 0 ? threads : usable_cpus()),
      decoder_(model_->parts().config, model_->parts().weights_for(ops, pool_), ops, pool_) {
  const KvGroups groups = kv_groups(model_->parts().config, {});
  for (const KvGroupSpec& group : groups.groups) {
    groups_.push_back(cache_.layout(group.visible));
    tables_.push_back(cache_.table(group.visible));
  }
  for (std::size_t i = 0; i < groups.layer_map.size(); ++i) {
    layers_.push_back({groups.layer_map[i].group, static_cast<std::int64_t>(i)});
  }
}

Result<std::unique_ptr<Inside>> Inside::create(std::shared_ptr<const Model> model, std::int64_t context, int threads) {
  QUIRE_TRY(const Ops* ops, find_ops(kLabKernels));
  QUIRE_TRY(FlatCache cache, FlatCache::create(model->parts().config.kv_geometry(), context));
  return std::unique_ptr<Inside>(new Inside(std::move(model), std::move(cache), *ops, threads));
}

Result<std::span<const float>> Inside::compute(std::span<const TokenId> tokens, std::int64_t from,
                                               std::int64_t scored) {
  const std::int64_t first = cache_.current_length(), count = std::ssize(tokens);
  if (cache_.would_overflow(count)) {
    return fail(Errc::context_full, "{} tokens after {} do not fit in {}", count, first, cache_.max_length());
  }
  std::vector<std::int64_t> rows;
  for (std::int64_t i = from; i < count; ++i) rows.push_back(i);
  AttentionScores scores;
  if (scored > 0) {
    attention_.assign(static_cast<std::size_t>(score_count(groups_, layers_, tables_, first + count)), 0.f);
    scores = {scored, attention_.data()};
  }
  const BatchSequence sequence{count, first, tables_, scores};
  const auto logits = decoder_.forward({tokens, {&sequence, 1}, groups_, layers_, rows});
  QUIRE_CHECK_OK(cache_.advance(count));
  return logits;
}

const KvStreamLayout& Inside::layout(KvStream stream) const {
  return stream == KvStream::keys ? groups_.front().wide.keys : groups_.front().wide.values;
}

std::vector<float> Inside::read(KvStream stream, std::int64_t layer, std::int64_t head) const {
  const KvStreamLayout& where = layout(stream);
  std::vector<float> rows(static_cast<std::size_t>(length() * where.dim));
  for (std::int64_t t = 0; t < length(); ++t) {
    const std::byte* page = tables_.front().pages[t / kPageTokens].wide;
    read_token(where.format, where.order, where.tile(page, layer, head), t % kPageTokens, where.dim,
               rows.data() + t * where.dim);
  }
  return rows;
}

void Inside::write(KvStream stream, std::int64_t layer, std::int64_t head, std::span<const float> rows) {
  const KvStreamLayout& where = layout(stream);
  QUIRE_ASSERT(std::ssize(rows) == length() * where.dim, "rows of another shape");
  for (std::int64_t t = 0; t < length(); ++t) {
    std::byte* page = tables_.front().pages[t / kPageTokens].wide;
    write_token(where.format, where.order, where.tile(page, layer, head), t % kPageTokens, rows.data() + t * where.dim,
                where.dim);
  }
}

}  // namespace quire::lab
