// Traces of requests as Mooncake publishes them: one JSON object a line,
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
//
// with one id for every block of 512 tokens of the prompt; equal ids stand for equal prompts up to
// there. The file is a stranger's: every field is checked, and errors name the line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "quire/result.h"

namespace quire {

inline constexpr std::int64_t kTraceBlockTokens = 512;

struct TraceRequest {
  std::int64_t timestamp_ms = 0;
  std::int64_t input_tokens = 0, output_tokens = 0;
  std::size_t first = 0, blocks = 0;  // in Trace::ids
};

struct Trace {
  std::vector<TraceRequest> requests;
  std::vector<TokenId> ids;  // of all requests one after the other, numbered anew from 0
  std::size_t distinct = 0;

  std::span<const TokenId> blocks_of(const TraceRequest& request) const {
    return std::span(ids).subspan(request.first, request.blocks);
  }
};

Result<Trace> parse_trace(std::string_view text, std::string_view file);

}  // namespace quire
