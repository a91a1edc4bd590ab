#include "lab/trace_file.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>

#include "core/fail.h"

namespace quire {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostTokens = std::int64_t{1} << 40;

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Result<void> read_line(std::string_view line) {
    ++line_;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) {
      return wrong(
          "not a JSON object; expected {\"timestamp\": ..., \"input_length\": ..., \"output_length\": ..., "
          "\"hash_ids\": [...]}");
    }
    TraceRequest request;
    QUIRE_TRY(request.timestamp_ms, number(object, "timestamp"));
    QUIRE_TRY(request.input_tokens, number(object, "input_length"));
    QUIRE_TRY(request.output_tokens, number(object, "output_length"));
    if (!trace_.requests.empty() && request.timestamp_ms < trace_.requests.back().timestamp_ms) {
      return wrong("its timestamp is before that of the request above; expected them in order");
    }
    const auto ids = object.find("hash_ids");
    if (ids == object.end() || !ids->is_array()) return wrong("no \"hash_ids\"; expected a list of whole numbers");
    request.first = trace_.ids.size();
    request.blocks = ids->size();
    for (const Json& id : *ids) QUIRE_CHECK_OK(add_block(id));
    trace_.requests.push_back(request);
    return {};
  }

  Result<Trace> finish() {
    if (trace_.requests.empty())
      return fail(Errc::bad_file, "{}: no requests in it; expected one JSON object a line", file_);
    trace_.distinct = numbers_.size();
    return std::move(trace_);
  }

 private:
  Error wrong(std::string_view what) const { return fail(Errc::bad_file, "{}, line {}: {}", file_, line_, what); }

  Result<std::int64_t> number(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_integer() || found->get<double>() < 0 ||
        found->get<double>() > static_cast<double>(kMostTokens)) {
      return wrong(fmt::format("no \"{}\"; expected a whole number, 0 or more", key));
    }
    return found->get<std::int64_t>();
  }

  Result<void> add_block(const Json& id) {
    if (!id.is_number_integer()) return wrong("something in \"hash_ids\" is not a whole number");
    if (numbers_.size() >= static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
      return wrong("more than 2^31 different blocks");
    }
    // Hashes of 64 bits with and without a sign come out as the same bits.
    const auto bits =
        id.is_number_unsigned() ? id.get<std::uint64_t>() : static_cast<std::uint64_t>(id.get<std::int64_t>());
    const auto next = static_cast<TokenId>(numbers_.size());
    trace_.ids.push_back(numbers_.emplace(bits, next).first->second);
    return {};
  }

  std::string_view file_;
  std::int64_t line_ = 0;
  Trace trace_;
  std::unordered_map<std::uint64_t, TokenId> numbers_;
};

}  // namespace

Result<Trace> parse_trace(std::string_view text, std::string_view file) {
  Reader reader(file);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    QUIRE_CHECK_OK(reader.read_line(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

}  // namespace quire
