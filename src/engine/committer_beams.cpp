// Beam search in the engine: beams are branches of one job that fork and end together.
#include <algorithm>

#include "engine/committer.h"

namespace quire {

void Committer::advance_beams(Job& job, const Step& step, const Runner& runner) {
  std::vector<BeamSearch::Live> live;
  std::vector<Branch*> parents;
  std::vector<std::vector<std::uint64_t>> masks;
  for (const Work& work : step.works) {
    if (work.job != &job || !work.complete()) continue;
    const auto mask = allowed(job, *work.branch);
    masks.emplace_back(mask.begin(), mask.end());
    live.push_back({runner.logits(work.last_logits()),
                    std::span(work.branch->tokens).subspan(static_cast<std::size_t>(job.prompt)),
                    work.branch->log_probability,
                    {}});
    parents.push_back(work.branch);
  }
  if (live.empty()) return;  // still in the prompt
  for (std::size_t i = 0; i < live.size(); ++i) live[i].allowed = masks[i];
  if (job.first_token == Clock::time_point{}) job.first_token = Clock::now();
  const std::vector<BeamSearch::Next> next = job.beams->advance(
      live, [this](TokenId token) { return model_.ends_generation(token); }, !job.request.ignore_end);

  // The first child of a beam goes on with its sequence, others with a copy.
  std::vector<Branch> beams;
  std::vector<bool> taken(parents.size(), false);
  for (const BeamSearch::Next& child : next) {
    Branch beam = *parents[child.parent];
    if (taken[child.parent]) beam.sequence = scheduler_.fork(beam.sequence);
    taken[child.parent] = true;
    beam.tokens.push_back(child.token);
    if (beam.constraint) beam.constraint->accept(child.token);
    beam.log_probability = child.log_probability;
    beams.push_back(std::move(beam));
  }
  for (std::size_t i = 0; i < parents.size(); ++i) {
    if (!taken[i]) cache_.release(parents[i]->sequence);
  }
  job.branches = std::move(beams);

  const std::int64_t length = job.branches.empty() ? 0 : std::ssize(job.branches[0].tokens) - job.prompt;
  const bool out_of_tokens = job.request.max_tokens >= 0 && length >= job.request.max_tokens;
  const bool out_of_context = job.prompt + length > job.limit;
  if (job.branches.empty() || out_of_tokens || out_of_context ||
      job.beams->settled(job.branches[0].log_probability, length)) {
    end_beams(job);
  }
}

void Committer::end_beams(Job& job) {
  for (Branch& branch : job.branches) {
    job.beams->add({{branch.tokens.begin() + job.prompt, branch.tokens.end()}, branch.log_probability});
    branch.ended = StopReason::max_tokens;
  }
  const auto best = job.beams->best(static_cast<std::size_t>(job.request.choices));
  job.last_token = Clock::now();
  for (std::size_t i = 0; i < best.size(); ++i) {
    StreamDecoder text(model_.parts().tokenizer);
    for (const TokenId token : best[i].tokens) {
      StreamEvent event;
      event.choice = static_cast<int>(i);
      event.token = token;
      event.text = text.push(token);
      job.stream->push(std::move(event));
    }
    StreamEvent end;
    end.choice = static_cast<int>(i);
    end.text = text.flush();
    end.end = best[i].ended ? StopReason::end_of_generation : StopReason::max_tokens;
    job.stream->push(std::move(end));
    job.report.generated_tokens += std::ssize(best[i].tokens);
    totals_.generated_tokens += best[i].tokens.size();
  }
}

}  // namespace quire
