// Any bytes as a trace of requests: what parses is replayed through a small prefix index.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lab/trace_cache.h"
#include "lab/trace_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quire;
  const auto trace = parse_trace(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!trace.ok()) return 0;
  std::size_t blocks = 0;
  for (const TraceRequest& request : trace->requests) blocks += trace->blocks_of(request).size();
  if (blocks != trace->ids.size() || trace->distinct > blocks) std::abort();
  for (const char* policy : {"lru", "return-rate"}) {
    const auto report = replay(*trace, policy, 3);
    if (!report.ok() || report->blocks != blocks || report->hits > blocks) std::abort();
  }
  return 0;
}
