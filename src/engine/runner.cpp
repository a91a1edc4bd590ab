#include "engine/runner.h"

namespace quire {

Runner::Runner(const Model::Parts& parts, const Ops& ops, int threads)
    : pool_(threads > 0 ? threads : usable_cpus(), ThreadPool::Cpus::one_each),
      decoder_(parts.config, parts.weights_for(ops, pool_), ops, pool_),
      vocabulary_(static_cast<std::size_t>(parts.config.vocabulary)),
      width_(static_cast<std::size_t>(parts.config.width)) {}

void Runner::forward(const KvCache& cache, Step& step) {
  make_copies(step.plan, cache.layouts());
  tokens_.clear();
  sequences_.clear();
  rows_.clear();
  hidden_rows_.clear();
  for (std::size_t i = 0; i < step.works.size(); ++i) {
    Work& work = step.works[i];
    sequences_.push_back({work.rows(), work.first, step.plan.tables[i], work.scores});
    const auto first = work.branch->tokens.begin() + work.first;
    tokens_.insert(tokens_.end(), first, first + work.tokens);
    const std::int64_t first_row = std::ssize(tokens_) - work.tokens;
    work.first_logits = std::ssize(rows_);
    for (std::int64_t r = work.logits_from; r < work.rows(); ++r) rows_.push_back(first_row + r);
    work.first_hidden = std::ssize(hidden_rows_);
    for (std::int64_t r = work.hidden_from; r < work.tokens; ++r) hidden_rows_.push_back(first_row + r);
    tokens_.insert(tokens_.end(), work.drafts.begin(), work.drafts.end());
  }
  logits_ = decoder_.forward({tokens_, sequences_, cache.layouts(), cache.layer_map(), rows_, hidden_rows_});
}

}  // namespace quire
