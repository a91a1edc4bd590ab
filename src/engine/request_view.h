// A request as people who look at the engine see it.
#pragma once

#include "engine/job.h"

namespace quire {

inline RequestView view_of(const Job& job, const KvCache& cache) {
  const Branch& first = job.branches[0];
  RequestView view;
  view.id = job.arrival;
  view.running = job.running;
  view.choices = job.request.choices;
  view.prompt_tokens = job.prompt;
  if (first.done) view.prompt_done = job.prompt;
  if (job.running && !first.done) view.prompt_done = std::min(job.prompt, cache.length(first.sequence));
  view.cached_tokens = job.report.cached_tokens;
  view.generated_tokens = job.report.generated_tokens;
  view.max_tokens = job.request.max_tokens;
  view.speculates = job.request.speculation != Speculation::off;
  return view;
}

}  // namespace quire
