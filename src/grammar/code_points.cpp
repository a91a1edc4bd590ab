#include "grammar/code_points.h"

#include <algorithm>

namespace quire::grammar {
namespace {

constexpr CodePointRange kSurrogates{0xD800, 0xDFFF};

void split(char32_t first, char32_t last, std::vector<Utf8Sequence>& out) {
  const auto split_after = [&](char32_t border) {
    split(first, border, out);
    split(border + 1, last, out);
  };
  for (const char32_t border : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (first <= border && border < last) return split_after(border);
  }
  const std::string low = encode_char(first);
  const std::string high = encode_char(last);
  // Byte by byte only if the bytes behind the first that differs run from the least to the greatest.
  for (std::size_t tail = 1; tail < low.size(); ++tail) {
    const char32_t mask = (char32_t{1} << (6 * tail)) - 1;
    if ((first & ~mask) == (last & ~mask)) break;
    if ((first & mask) != 0) return split_after(first | mask);
    if ((last & mask) != mask) return split_after((last & ~mask) - 1);
  }
  Utf8Sequence sequence{{}, low.size()};
  for (std::size_t i = 0; i < low.size(); ++i) {
    sequence.bytes[i] = {static_cast<std::uint8_t>(low[i]), static_cast<std::uint8_t>(high[i])};
  }
  out.push_back(sequence);
}

}  // namespace

CodePointSet::CodePointSet(std::initializer_list<CodePointRange> ranges) {
  for (const CodePointRange range : ranges) add(range.first, range.last);
}

void CodePointSet::add(char32_t first, char32_t last) {
  const auto begin = std::partition_point(ranges_.begin(), ranges_.end(), [&](auto r) { return r.last + 1 < first; });
  const auto end = std::partition_point(begin, ranges_.end(), [&](auto r) { return r.first <= last + 1; });
  if (begin == end) {
    ranges_.insert(begin, {first, last});
    return;
  }
  *begin = {std::min(first, begin->first), std::max(last, (end - 1)->last)};
  ranges_.erase(begin + 1, end);
}

void CodePointSet::add(const CodePointSet& other) {
  for (const CodePointRange range : other.ranges_) add(range.first, range.last);
}

CodePointSet CodePointSet::complement() const {
  CodePointSet result;
  char32_t next = 0;
  for (const CodePointRange range : ranges_) {
    if (range.first > next) result.ranges_.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) result.ranges_.push_back({next, kLastCodePoint});
  return result;
}

CodePointSet CodePointSet::without(const CodePointSet& other) const {
  CodePointSet gone = complement();
  gone.add(other);
  return gone.complement();
}

bool CodePointSet::contains(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](auto r) { return r.first <= c && c <= r.last; });
}

std::optional<DecodedChar> decode_char(std::string_view text) {
  if (text.empty()) return std::nullopt;
  const auto lead = static_cast<std::uint8_t>(text[0]);
  if (lead < 0x80) return DecodedChar{lead, 1};
  const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return std::nullopt;
  char32_t c = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if ((byte & 0xC0) != 0x80) return std::nullopt;
    c = (c << 6) | (byte & 0x3Fu);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (overlong || c > kLastCodePoint || (c >= kSurrogates.first && c <= kSurrogates.last)) return std::nullopt;
  return DecodedChar{c, length};
}

std::string encode_char(char32_t c) {
  if (c < 0x80) return std::string(1, static_cast<char>(c));
  std::string out;
  const int tails = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  const unsigned marks = tails == 1 ? 0xC0 : tails == 2 ? 0xE0 : 0xF0;
  out += static_cast<char>(marks | (c >> (6 * tails)));
  for (int i = tails - 1; i >= 0; --i) out += static_cast<char>(0x80 | ((c >> (6 * i)) & 0x3F));
  return out;
}

std::vector<Utf8Sequence> utf8_sequences(const CodePointSet& set) {
  std::vector<Utf8Sequence> sequences;
  const CodePointSet characters = set.without({kSurrogates});
  for (const CodePointRange range : characters.ranges()) split(range.first, range.last, sequences);
  return sequences;
}

}  // namespace quire::grammar
