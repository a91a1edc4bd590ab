// A small cache with a prompt in it, saved to memory and read back.
#pragma once

#include <cstring>

#include "cache/kv_cache_test_support.h"
#include "cache/saved_prompt.h"

namespace quire::testing_support {

inline PageSpace space_of(const KvCache& cache, std::uint8_t model = 1) {
  Digest digest{};
  digest[0] = std::byte{model};
  return page_space({digest, "ref", "1.2.3"}, cache);
}

inline std::int64_t blocks_of(std::span<const TokenId> tokens) { return std::ssize(tokens) / kPageTokens; }

// A sequence that begins with whole blocks of `tokens`, as many as the cache has.
inline std::int64_t take_over(KvCache& cache, SequenceId id, std::span<const TokenId> tokens,
                              std::string_view salt = {}) {
  EXPECT_TRUE(cache.open(id, {salt, {}}).ok());
  std::vector<TokenId> whole(tokens.begin(), tokens.begin() + blocks_of(tokens) * kPageTokens);
  whole.push_back(0);  // one token is always left to compute
  return *cache.rollback(id, cache.reuse(id, whole) / kPageTokens * kPageTokens) / kPageTokens;
}

inline void compute(KvCache& cache, std::span<const TokenId> tokens, std::string_view salt = {}) {
  ASSERT_TRUE(cache.open(1, {salt, {}}).ok());
  ASSERT_TRUE(extend(cache, 1, tokens).ok());
  cache.checkpoint(1);
  cache.release(1);
}

inline std::vector<std::byte> save(KvCache& cache, const PageSpace& space, std::span<const TokenId> tokens) {
  std::vector<std::byte> file;
  SavedPromptWriter writer(space, [&](std::span<const std::byte> bytes) -> Result<void> {
    file.insert(file.end(), bytes.begin(), bytes.end());
    return {};
  });
  const std::int64_t blocks = take_over(cache, 2, tokens);
  EXPECT_TRUE(writer.begin(tokens, blocks).ok());
  for (const PagePlace& place : PrefixPages::places(cache.layouts(), blocks)) {
    EXPECT_TRUE(writer.add(place, cache.sealed_page(2, place)).ok());
  }
  cache.release(2);
  return file;
}

inline Result<SavedPromptReader> open_saved(const PageSpace& space, std::span<const std::byte> file,
                                            SavedPromptReader::Digests digests = SavedPromptReader::Digests::check) {
  auto source = [file](std::span<std::byte> into) mutable -> Result<void> {
    if (into.size() > file.size()) return Error{Errc::bad_file, "the end"};
    std::memcpy(into.data(), file.data(), into.size());
    file = file.subspan(into.size());
    return {};
  };
  return SavedPromptReader::open(space, std::move(source), file.size(), digests);
}

// All of a file into a cache: how many blocks came, or why not all.
inline Result<std::int64_t> restore(KvCache& cache, const PageSpace& space, std::span<const std::byte> file,
                                    std::string_view salt = {},
                                    SavedPromptReader::Digests digests = SavedPromptReader::Digests::check) {
  auto reader = open_saved(space, file, digests);
  if (!reader.ok()) return reader.error();
  const std::int64_t there = take_over(cache, 3, reader->tokens(), salt);
  Result<std::int64_t> restored = reader->blocks();
  while (restored.ok() && reader->next() < reader->blocks()) {
    const std::int64_t block = reader->next();
    auto pages = reader->read_block();
    if (!pages.ok()) {
      restored = pages.error();
    } else if (block >= there) {
      const auto appended = cache.append_sealed(3, reader->block_tokens(block), *pages);
      if (!appended.ok()) restored = appended.error();
    }
  }
  cache.checkpoint(3);
  cache.release(3);
  return restored;
}

}  // namespace quire::testing_support
