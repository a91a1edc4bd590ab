// Changes to a good file of saved pages through the decoder, without its digests, into a cache that then reads every
// value. The input is laid over the file: zeros change nothing, and its first two bytes cut the end off.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cache/saved_prompt.h"

namespace {

using namespace quire;

constexpr std::int64_t kBlocks = 3;

std::unique_ptr<KvCache> make_cache() {
  CacheOptions options;
  for (const KvFormat format : {KvFormat::q8, KvFormat::k2}) {
    KvGroupSpec spec;
    spec.layers = 1;
    spec.kv_heads = 1;
    spec.key_dim = spec.value_dim = 32;
    spec.keys = spec.values = format;
    if (format == KvFormat::k2) spec.visible.window = 40;
    options.groups.push_back(spec);
  }
  options.budget_bytes = 1 << 20;
  return std::move(*KvCache::create(options));
}

struct Good {
  PageSpace space;
  std::vector<std::byte> file;
};

const Good& good() {
  static const Good made = [] {
    Good result{page_space({{}, "ref", "1"}, *make_cache()), {}};
    SavedPromptWriter writer(result.space, [&](std::span<const std::byte> bytes) -> Result<void> {
      result.file.insert(result.file.end(), bytes.begin(), bytes.end());
      return {};
    });
    const std::vector<TokenId> tokens(kBlocks * kPageTokens + 7, 5);
    bool written = writer.begin(tokens, kBlocks).ok();
    for (const PagePlace& place : PrefixPages::places(result.space.layouts, kBlocks)) {
      written = written && writer.add(place, std::vector<std::byte>(static_cast<std::size_t>(place.bytes))).ok();
    }
    if (!written) std::abort();
    return result;
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> file = good().file;
  if (size >= 2) {
    const std::size_t cut = data[0] + 256u * data[1];
    file.resize(file.size() - std::min(cut, file.size()));
    for (std::size_t i = 2; i < size && i - 2 < file.size(); ++i) file[i - 2] ^= static_cast<std::byte>(data[i]);
  }
  auto rest = std::span<const std::byte>(file);
  auto reader = SavedPromptReader::open(
      good().space,
      [&](std::span<std::byte> into) -> Result<void> {
        if (into.size() > rest.size()) return Error{Errc::bad_file, "the end"};
        std::memcpy(into.data(), rest.data(), into.size());
        rest = rest.subspan(into.size());
        return {};
      },
      file.size(), SavedPromptReader::Digests::ignore);
  if (!reader.ok()) return 0;
  const auto cache = make_cache();
  if (!cache->open(1).ok()) std::abort();
  while (reader->next() < reader->blocks()) {
    const std::int64_t block = reader->next();
    const auto pages = reader->read_block();
    if (!pages.ok() || !cache->append_sealed(1, reader->block_tokens(block), *pages).ok()) return 0;
  }
  cache->checkpoint(1);
  double sum = 0;
  for (std::int64_t layer = 0; layer < std::ssize(cache->layer_map()); ++layer) {
    const std::int64_t first = layer == 0 ? 0 : (kBlocks - 2) * kPageTokens;
    const auto values = cache->read(1, layer, first, cache->length(1) - first);
    if (!values.ok()) std::abort();
    for (const float value : values->keys) sum += static_cast<double>(value);
    for (const float value : values->values) sum += static_cast<double>(value);
  }
  [[maybe_unused]] volatile double sink = sum;
  return 0;
}
