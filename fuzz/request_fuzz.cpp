// Any bytes as the body of a request, in the spelling of each API: read, or refused with a message that is JSON.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/conversation.h"
#include "server/message_fields.h"
#include "server/request_fields.h"
#include "server/response_fields.h"

namespace {

using namespace quire::server;

void require(bool condition) {
  if (!condition) std::abort();
}

// Whether it was read. What is refused is the client's fault, and told in one line.
template <class T>
bool read(const Api<T>& result) {
  if (result.ok()) return true;
  require(result.error().status == 400);
  require(Json::accept(to_json(result.error())));
  require(result.error().message.find('\n') == std::string::npos);
  return false;
}

void read_settings(const Fields& fields) {
  const auto request = request_from(fields, Caller{"tenant", false});
  if (!read(request)) return;
  const quire::SamplingOptions& s = request->sampling;
  for (const float x : {s.temperature, s.top_p, s.min_p, s.typical_p, s.repeat_penalty, s.presence_penalty}) {
    require(std::isfinite(x));
  }
  require(request->max_tokens >= -1);
  require(request->salt.starts_with("tenant:"));  // whatever the client writes, it is its own
  require(request->keep.count() >= 0);
  for (const ToolSpelling spelling : {ToolSpelling::chat, ToolSpelling::responses, ToolSpelling::anthropic}) {
    const auto tools = tools_from(fields, spelling);
    if (!read(tools)) continue;
    quire::Request constrained = *request;
    if (!read(constrain(constrained, *tools))) continue;
    (void)tools->chat_options();
    (void)tools->rules();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = parse_object(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!read(body)) return 0;
  const Fields fields(*body);
  read_settings(fields);
  for (const auto& messages : {messages_from(fields), anthropic_messages_from(fields), input_from(fields)}) {
    if (read(messages)) require(!messages->empty());
  }
  read(anthropic_term_from(fields));
  read(text_format_from(fields));
  read(check_is_stateless(fields));
  return 0;
}
