#pragma once

#include <string>
#include <vector>

#include "lab/trace_file.h"

namespace quire {

// Requests one second apart, each a list of blocks.
inline Trace trace_of(const std::vector<std::vector<TokenId>>& requests) {
  Trace trace;
  for (const auto& blocks : requests) {
    TraceRequest request;
    request.timestamp_ms = 1000 * static_cast<std::int64_t>(trace.requests.size());
    request.input_tokens = kTraceBlockTokens * std::ssize(blocks);
    request.first = trace.ids.size();
    request.blocks = blocks.size();
    trace.requests.push_back(request);
    for (const TokenId id : blocks) {
      trace.ids.push_back(id);
      trace.distinct = std::max(trace.distinct, static_cast<std::size_t>(id) + 1);
    }
  }
  return trace;
}

}  // namespace quire
