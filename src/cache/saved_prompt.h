// A prompt's pages as bytes that outlive the process. What is read is hostile until it is checked: every size
// must be the one this cache would have written, and a digest comes before a copy.
//
//   header    "QUIREKV\n" | version | number of fields | fields, 16 bytes each | prompt tokens | blocks | SHA-256
//   tokens    all of the prompt, 4 bytes each | SHA-256
//   records   block by block, every page that going on after the last block takes
//
//   record    "QPAG" | group | page bytes | name | the block's 32 tokens | the page | SHA-256
//
// Numbers are little-endian. A record stands alone: its digest covers the space it belongs to, its name (page_name.h)
// all tokens up to its end, so that a page of another prompt, model or format is never taken for it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"

namespace quire {

// What pages must have in common to be exchanged: all that decides their bytes besides the tokens.
struct PageSpace {
  struct Field {
    std::string name;   // for people
    std::string value;  // at most 16 bytes
  };
  std::vector<Field> fields;
  std::vector<KvGroupLayout> layouts;
  Digest digest{};  // of the fields
};

// Who computed the pages: the model's weights, the kernels, the program.
struct PageMaker {
  Digest model;
  std::string kernels;
  std::string version;
};
PageSpace page_space(const PageMaker& maker, const KvCache& cache);

// Takes or gives the next bytes: all of them, or an error.
using ByteSink = std::function<Result<void>(std::span<const std::byte>)>;
using ByteSource = std::function<Result<void>(std::span<std::byte>)>;

class SavedPromptWriter {
 public:
  SavedPromptWriter(const PageSpace& space, ByteSink sink);

  // `tokens` are the prompt's; pages of its first `blocks` blocks follow.
  Result<void> begin(std::span<const TokenId> tokens, std::int64_t blocks);
  // In the order of PrefixPages::places().
  Result<void> add(const PagePlace& place, std::span<const std::byte> page);

 private:
  const PageSpace& space_;
  ByteSink sink_;
  std::vector<TokenId> tokens_;
  std::vector<Digest> chains_;  // [blocks]
};

class SavedPromptReader {
 public:
  // `ignore` is for fuzzing, which would never get past a digest: names are not looked at either.
  enum class Digests { check, ignore };

  // Of a source that has so many bytes in all.
  static Result<SavedPromptReader> open(const PageSpace& space, ByteSource source, std::uint64_t bytes,
                                        Digests digests = Digests::check);

  const std::vector<TokenId>& tokens() const { return tokens_; }  // of the prompt
  std::int64_t blocks() const { return blocks_; }                 // whose pages are there
  std::int64_t next() const { return next_; }                     // number of the next one
  std::span<const TokenId> block_tokens(std::int64_t block) const;

  // The pages of the next block, checked. Valid until the next call.
  Result<std::vector<PageBytes>> read_block();

 private:
  SavedPromptReader(const PageSpace& space, ByteSource source, Digests digests);
  Result<void> read_header(std::uint64_t bytes);
  Result<void> check_size(std::uint64_t tokens, std::uint64_t blocks, std::uint64_t header, std::uint64_t bytes);
  Result<void> read_tokens(std::uint64_t count);
  Result<void> check_digest(const Digest& expected, std::span<const std::byte> stored, const char* what) const;

  const PageSpace* space_;
  ByteSource source_;
  Digests digests_;
  std::vector<TokenId> tokens_;
  std::int64_t blocks_ = 0, next_ = 0;
  std::vector<PagePlace> places_;
  std::size_t at_ = 0;  // in places_
  ChainNamer chain_;
  std::vector<std::byte> buffer_;
};

}  // namespace quire
