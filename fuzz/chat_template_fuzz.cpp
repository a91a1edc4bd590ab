// Any bytes as a chat template: parsed, and rendered with small limits if they parse.
#include <cstddef>
#include <cstdint>
#include <string>

#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const quire::Json context = quire::Json::parse(R"({
    "messages": [{"role": "system", "content": "be brief"},
                 {"role": "user", "content": "h\u00e9llo\n<b>\ud83d\ude00"},
                 {"role": "assistant", "content": null,
                  "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1, "y": [2.5, true]}}}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>", "n": 3})");
  const auto parsed = quire::ChatTemplate::parse(std::string(reinterpret_cast<const char*>(data), size));
  if (!parsed.ok()) return 0;
  const quire::RenderLimits limits{.steps = 20'000, .output_bytes = 64 << 10};
  const auto rendered = parsed->render(context, limits);
  if (rendered.ok() && rendered->size() > limits.output_bytes) __builtin_trap();
  return 0;
}
