// Any bytes through the GGUF parser and every getter.
#include <span>

#include "loader/gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quire;
  const auto gguf = Gguf::parse({reinterpret_cast<const std::byte*>(data), size}, "fuzz");
  if (!gguf.ok()) return 0;
  std::size_t sum = 0;
  for (const std::string_view key : gguf->keys()) {
    sum += gguf->show(key).size();
    sum += gguf->integer(key, ~0ull).ok() + gguf->real(key).ok() + gguf->boolean(key).ok();
    if (const auto s = gguf->string(key); s.ok()) sum += s->size();
    if (const auto list = gguf->strings(key); list.ok()) {
      for (const auto s : *list) sum += s.size();
    }
    sum += gguf->integers(key).ok() + gguf->floats(key).ok();
  }
  for (const GgufTensor& tensor : gguf->tensors()) {
    for (const std::byte b : tensor.data) sum += static_cast<std::size_t>(b);
  }
  [[maybe_unused]] volatile std::size_t sink = sum;
  return 0;
}
