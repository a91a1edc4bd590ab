#include "cache/saved_prompt.h"

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstring>

#include "core/check.h"
#include "core/checked_math.h"
#include "core/fail.h"
#include "core/hex.h"
#include "core/printable.h"

namespace quire {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored as they lie in memory");

constexpr std::array<char, 8> kFileMagic{'Q', 'U', 'I', 'R', 'E', 'K', 'V', '\n'};
constexpr std::array<char, 4> kRecordMagic{'Q', 'P', 'A', 'G'};
constexpr std::uint32_t kFileVersion = 1;
constexpr std::uint32_t kMostFields = 4096;
constexpr std::size_t kFieldBytes = 16;
constexpr std::size_t kDigestBytes = sizeof(Digest);
constexpr std::uint64_t kStartBytes = 16;  // magic, version, number of fields
constexpr std::uint64_t kBlockBytes = kPageTokens * sizeof(TokenId);
constexpr std::uint64_t kRecordHead = 4 + 4 + 8 + kDigestBytes + kBlockBytes;

class Bytes {
 public:
  template <class T>
  requires(!std::convertible_to<const T&, std::span<const std::byte>>) Bytes& add(const T& plain) {
    return add(std::as_bytes(std::span(&plain, 1)));
  }
  Bytes& add(std::span<const std::byte> more) {
    const std::size_t end = bytes_.size();
    bytes_.resize(end + more.size());
    std::memcpy(bytes_.data() + end, more.data(), more.size());
    return *this;
  }
  std::span<const std::byte> get() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

std::array<char, kFieldBytes> cell(const std::string& value) {
  std::array<char, kFieldBytes> padded{};
  std::memcpy(padded.data(), value.data(), std::min(value.size(), padded.size()));
  return padded;
}

std::string shown(const std::array<char, kFieldBytes>& padded) {
  std::string text(padded.begin(), std::find(padded.begin(), padded.end(), '\0'));
  const auto strange = [](char c) { return is_control(c) || static_cast<unsigned char>(c) >= 0x80; };
  std::ranges::replace_if(text, strange, '?');
  return text.empty() ? "nothing" : text;
}

Digest digest_of(const PageSpace& space, std::span<const std::byte> bytes) {
  return Hasher().update(space.digest).update(bytes).finish();
}

std::uint64_t header_bytes(std::uint64_t fields) { return kStartBytes + fields * kFieldBytes + 16 + kDigestBytes; }

std::uint64_t record_bytes(const PagePlace& place) {
  return kRecordHead + static_cast<std::uint64_t>(place.bytes) + kDigestBytes;
}

Error damaged(const std::string& what) {
  return fail(Errc::bad_file, "saved pages: {}; the file is damaged or was never one of ours: save it again", what);
}

}  // namespace

PageSpace page_space(const PageMaker& maker, const KvCache& cache) {
  PageSpace space;
  const auto add = [&](const std::string& name, std::string value) {
    QUIRE_ASSERT(value.size() <= kFieldBytes, "a field of a page space is too long");
    space.fields.push_back({name, std::move(value)});
  };
  const auto add_digest = [&](const std::string& name, const Digest& digest) {
    const std::string hex = to_hex(digest);
    for (std::size_t i = 0; i < hex.size(); i += kFieldBytes) add(name, hex.substr(i, kFieldBytes));
  };
  add_digest("model file with digest", maker.model);
  add("kernels", maker.kernels);
  add("version of quire", maker.version);
  add("page layout", fmt::to_string(kPageLayoutVersion));
  add("tokens of a page", fmt::to_string(kPageTokens));
  add("number of layer groups", fmt::to_string(cache.layouts().size()));
  for (const KvGroupLayout& layout : cache.layouts()) {
    add("type of keys", std::string(info(layout.packed.keys.format).name));
    add("type of values", std::string(info(layout.packed.values.format).name));
    const auto add_number = [&](const char* name, std::int64_t value) { add(name, fmt::to_string(value)); };
    add_number("number of layers", layout.layers);
    add_number("number of KV heads", layout.kv_heads);
    add_number("key size", layout.packed.keys.dim);
    add_number("value size", layout.packed.values.dim);
    add_number("latent attention", layout.packed.latent ? 1 : 0);
    add_number("number of first pages in 16 bits", layout.sink_pages);
    add_number("number of recent pages in 16 bits", layout.recent_pages);
    add_number("window", layout.visible.window);
    add_number("size of an open page", layout.wide.bytes);
    add_number("size of a sealed page", layout.packed.bytes);
  }
  add_digest("map of layers with digest", cache.identity());
  space.layouts.assign(cache.layouts().begin(), cache.layouts().end());
  Hasher hasher;
  for (const PageSpace::Field& field : space.fields) {
    const auto padded = cell(field.value);
    hasher.update(std::as_bytes(std::span(padded)));
  }
  space.digest = hasher.finish();
  return space;
}

SavedPromptWriter::SavedPromptWriter(const PageSpace& space, ByteSink sink) : space_(space), sink_(std::move(sink)) {}

Result<void> SavedPromptWriter::begin(std::span<const TokenId> tokens, std::int64_t blocks) {
  QUIRE_ASSERT(blocks > 0 && blocks * kPageTokens <= std::ssize(tokens), "blocks that the prompt does not have");
  tokens_.assign(tokens.begin(), tokens.end());
  ChainNamer chain(space_.digest);
  for (std::int64_t block = 0; block < blocks; ++block) {
    chains_.push_back(chain.next(tokens.subspan(static_cast<std::size_t>(block * kPageTokens), kPageTokens)).chain);
  }
  Bytes header;
  header.add(kFileMagic).add(kFileVersion).add(static_cast<std::uint32_t>(space_.fields.size()));
  for (const PageSpace::Field& field : space_.fields) header.add(cell(field.value));
  header.add(static_cast<std::uint64_t>(tokens.size())).add(static_cast<std::uint64_t>(blocks));
  // Of a file from elsewhere the fields are what is not known: this digest is over what is read alone.
  header.add(Hasher().update(header.get()).finish());
  header.add(std::as_bytes(tokens)).add(digest_of(space_, std::as_bytes(tokens)));
  return sink_(header.get());
}

Result<void> SavedPromptWriter::add(const PagePlace& place, std::span<const std::byte> page) {
  QUIRE_ASSERT(std::ssize(page) == place.bytes, "a page of another size");
  const auto block = static_cast<std::size_t>(place.block);
  Bytes record;
  record.add(kRecordMagic).add(static_cast<std::uint32_t>(place.group)).add(static_cast<std::uint64_t>(place.bytes));
  record.add(page_name(chains_[block], place.group));
  record.add(std::as_bytes(std::span(tokens_).subspan(block * kPageTokens, kPageTokens))).add(page);
  record.add(digest_of(space_, record.get()));
  return sink_(record.get());
}

SavedPromptReader::SavedPromptReader(const PageSpace& space, ByteSource source, Digests digests)
    : space_(&space), source_(std::move(source)), digests_(digests), chain_(space.digest) {}

Result<SavedPromptReader> SavedPromptReader::open(const PageSpace& space, ByteSource source, std::uint64_t bytes,
                                                  Digests digests) {
  SavedPromptReader reader(space, std::move(source), digests);
  QUIRE_CHECK_OK(reader.read_header(bytes));
  return reader;
}

Result<void> SavedPromptReader::check_digest(const Digest& expected, std::span<const std::byte> stored,
                                             const char* what) const {
  if (digests_ == Digests::ignore || same(expected, stored)) return {};
  return damaged(fmt::format("{} not what its digest says", what));
}

Result<void> SavedPromptReader::read_header(std::uint64_t bytes) {
  if (bytes < kStartBytes) return damaged(fmt::format("{} bytes are too few for a header", bytes));
  buffer_.resize(kStartBytes);
  QUIRE_CHECK_OK(source_(buffer_));
  if (!same(std::span(buffer_).first(kFileMagic.size()), std::as_bytes(std::span(kFileMagic)))) {
    return damaged("the first bytes are others than ours");
  }
  if (const auto version = number_at<std::uint32_t>(buffer_, 8); version != kFileVersion) {
    return fail(Errc::unsupported, "saved pages: version {} of the file format; this quire reads version {}", version,
                kFileVersion);
  }
  const auto fields = number_at<std::uint32_t>(buffer_, 12);
  const std::uint64_t header = header_bytes(fields);
  if (fields > kMostFields || header > bytes) {
    return damaged(fmt::format("{} fields do not fit in {} bytes", fields, bytes));
  }
  buffer_.resize(header);
  QUIRE_CHECK_OK(source_(std::span(buffer_).subspan(kStartBytes)));
  const auto all = std::span<const std::byte>(buffer_);
  QUIRE_CHECK_OK(check_digest(Hasher().update(all.first(header - kDigestBytes)).finish(), all.last(kDigestBytes),
                              "the header is"));
  for (std::size_t i = 0; i < std::min<std::size_t>(fields, space_->fields.size()); ++i) {
    std::array<char, kFieldBytes> theirs;
    std::memcpy(theirs.data(), buffer_.data() + kStartBytes + i * kFieldBytes, kFieldBytes);
    const PageSpace::Field& mine = space_->fields[i];
    if (theirs == cell(mine.value)) continue;
    return fail(Errc::unsupported, "saved pages: computed with {} {}; here it is {}: they cannot be used here",
                mine.name, shown(theirs), mine.value);
  }
  if (fields != space_->fields.size()) {
    return fail(Errc::unsupported, "saved pages: {} fields describe them; expected {}", fields, space_->fields.size());
  }
  const auto tokens = number_at<std::uint64_t>(buffer_, header - kDigestBytes - 16);
  const auto blocks = number_at<std::uint64_t>(buffer_, header - kDigestBytes - 8);
  QUIRE_CHECK_OK(check_size(tokens, blocks, header, bytes));
  return read_tokens(tokens);
}

// The whole size follows from two numbers. They are held against the bytes there are before anything is made of them.
Result<void> SavedPromptReader::check_size(std::uint64_t tokens, std::uint64_t blocks, std::uint64_t header,
                                           std::uint64_t bytes) {
  std::int64_t smallest = space_->layouts.front().wide.bytes;
  for (const KvGroupLayout& layout : space_->layouts) {
    smallest = std::min({smallest, layout.wide.bytes, layout.packed.bytes});
  }
  if (tokens > bytes / sizeof(TokenId) || blocks == 0 || blocks > tokens / kPageTokens ||
      blocks > bytes / static_cast<std::uint64_t>(smallest)) {
    return damaged(fmt::format("{} pages of a prompt of {} tokens in {} bytes", blocks, tokens, bytes));
  }
  blocks_ = static_cast<std::int64_t>(blocks);
  places_ = PrefixPages::places(space_->layouts, blocks_);
  CheckedSize total = CheckedSize(header) + CheckedSize(tokens) * sizeof(TokenId) + kDigestBytes;
  for (const PagePlace& place : places_) total = total + record_bytes(place);
  if (total.get() == bytes) return {};
  return damaged(fmt::format("{} bytes; expected {}", bytes, total.get().value_or(0)));
}

Result<void> SavedPromptReader::read_tokens(std::uint64_t count) {
  buffer_.resize(count * sizeof(TokenId) + kDigestBytes);
  QUIRE_CHECK_OK(source_(buffer_));
  const auto stored = std::span<const std::byte>(buffer_).first(buffer_.size() - kDigestBytes);
  QUIRE_CHECK_OK(
      check_digest(digest_of(*space_, stored), std::span(buffer_).last(kDigestBytes), "the prompt's tokens are"));
  tokens_.resize(count);
  std::memcpy(tokens_.data(), stored.data(), stored.size());
  return {};
}

std::span<const TokenId> SavedPromptReader::block_tokens(std::int64_t block) const {
  return std::span(tokens_).subspan(static_cast<std::size_t>(block * kPageTokens), kPageTokens);
}

Result<std::vector<PageBytes>> SavedPromptReader::read_block() {
  QUIRE_ASSERT(next_ < blocks_, "there is no further block");
  const std::size_t first = at_;
  std::uint64_t bytes = 0;
  for (; at_ < places_.size() && places_[at_].block == next_; ++at_) bytes += record_bytes(places_[at_]);
  buffer_.resize(bytes);
  QUIRE_CHECK_OK(source_(buffer_));
  const auto tokens = std::as_bytes(block_tokens(next_));
  const BlockName name = chain_.next(block_tokens(next_));
  std::vector<PageBytes> pages;
  auto rest = std::span<const std::byte>(buffer_);
  for (std::size_t i = first; i < at_; ++i) {
    const PagePlace& place = places_[i];
    const auto record = rest.first(record_bytes(place));
    rest = rest.subspan(record.size());
    const std::string what = fmt::format("page {} of group {} is", next_, place.group);
    QUIRE_CHECK_OK(check_digest(digest_of(*space_, record.first(record.size() - kDigestBytes)),
                                record.last(kDigestBytes), what.c_str()));
    QUIRE_CHECK_OK(check_digest(page_name(name.chain, place.group), record.subspan(16, kDigestBytes), what.c_str()));
    if (!same(record.first(kRecordMagic.size()), std::as_bytes(std::span(kRecordMagic))) ||
        number_at<std::uint32_t>(record, 4) != static_cast<std::uint32_t>(place.group) ||
        number_at<std::uint64_t>(record, 8) != static_cast<std::uint64_t>(place.bytes) ||
        !same(record.subspan(16 + kDigestBytes, kBlockBytes), tokens)) {
      return damaged(fmt::format("{} another's", what));
    }
    pages.push_back({place, record.subspan(kRecordHead, static_cast<std::size_t>(place.bytes))});
  }
  ++next_;
  return pages;
}

}  // namespace quire
