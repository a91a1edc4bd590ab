#include "engine/job.h"

#include <atomic>

namespace quire {

Branch new_branch(const Job& job, const Tokenizer& tokenizer, int choice) {
  const std::vector<TokenId>& tokens = job.branches.empty() ? job.request.tokens : job.branches[0].tokens;
  SamplingOptions sampling = job.request.sampling;
  sampling.seed += static_cast<std::uint64_t>(choice);
  static std::atomic<std::uint64_t> next_id{0};
  Branch branch{choice, {tokens.begin(), tokens.begin() + job.prompt}, sampling, tokenizer, job.request.stop};
  branch.id = next_id++;
  return branch;
}

}  // namespace quire
