// Reading the text of a grammar or a pattern, character by character.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/fail.h"
#include "grammar/code_points.h"

namespace quire::grammar {

inline constexpr std::size_t kLargestSource = std::size_t{256} << 10;
inline constexpr int kDeepestNesting = 100;

inline Result<void> check_source(std::string_view source, std::string_view what) {
  if (source.size() > kLargestSource) {
    return fail(Errc::unsupported, "the {} has {} bytes; at most {} are read", what, source.size(), kLargestSource);
  }
  for (std::string_view rest = source; !rest.empty();) {
    const auto c = decode_char(rest);
    if (!c) return fail(Errc::invalid_argument, "byte {} of the {} is not UTF-8", source.size() - rest.size(), what);
    rest.remove_prefix(c->length);
  }
  return {};
}

// Over text that check_source found good.
class SourceReader {
 public:
  explicit SourceReader(std::string_view text) : text_(text) {}

  bool done() const { return at_ == text_.size(); }
  std::size_t position() const { return at_; }
  std::size_t line_of(std::size_t position) const {
    const std::string_view before = text_.substr(0, position);
    return 1 + static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  }
  bool looking_at(std::string_view expected) const { return text_.substr(at_).starts_with(expected); }
  char peek() const { return done() ? '\0' : text_[at_]; }

  bool take(std::string_view expected) {
    if (!looking_at(expected)) return false;
    at_ += expected.size();
    return true;
  }

  char32_t next() {
    const DecodedChar c = *decode_char(text_.substr(at_));
    at_ += c.length;
    return c.code_point;
  }

  template <class Accepts>
  std::string_view take_while(const Accepts& accepts) {
    const std::size_t begin = at_;
    while (!done() && accepts(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // Decimal digits; what is beyond the largest count is as good as that.
  std::optional<std::uint32_t> take_count() {
    constexpr std::uint32_t kLargest = 1'000'000'000;
    const std::string_view digits = take_while([](char c) { return c >= '0' && c <= '9'; });
    if (digits.empty()) return std::nullopt;
    std::uint64_t count = 0;
    for (const char digit : digits)
      count = std::min<std::uint64_t>(kLargest, count * 10 + static_cast<unsigned>(digit - '0'));
    return static_cast<std::uint32_t>(count);
  }

  // Exactly so many hexadecimal digits that make a character.
  std::optional<char32_t> take_hex(std::size_t digits) {
    char32_t c = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      const char digit = peek();
      const int value = digit >= '0' && digit <= '9'   ? digit - '0'
                        : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                        : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                       : -1;
      if (value < 0) return std::nullopt;
      c = (c << 4) | static_cast<char32_t>(value);
      ++at_;
    }
    if (c > kLastCodePoint || (c >= 0xD800 && c <= 0xDFFF)) return std::nullopt;
    return c;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

struct RepeatCounts {
  std::uint32_t least, most;
};

// What follows "{": m}, m,} or m,n}. Nothing where it is something else.
inline std::optional<RepeatCounts> take_repeat_counts(SourceReader& reader, std::uint32_t unbounded) {
  const auto least = reader.take_count();
  if (!least) return std::nullopt;
  RepeatCounts counts{*least, *least};
  if (reader.take(",")) counts.most = reader.take_count().value_or(unbounded);
  if (!reader.take("}") || counts.most < counts.least) return std::nullopt;
  return counts;
}

}  // namespace quire::grammar
