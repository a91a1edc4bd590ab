// Values of a span as products read them, each page's as bytes or as pairs.
#include "kernels/cpu/weigh.inl"

namespace quire {
namespace {

#if defined(__AVX512BF16__)

QUIRE_INLINE bool reads_short(const PageTileLayouts& layout) {
  const auto can_read = [](KvFormat format) {
    return format == KvFormat::f16 || format == KvFormat::q8 || format == KvFormat::q4;
  };
  return !layout.latent && can_read(layout.keys.format) && layout.keys.order == KvOrder::lanes &&
         layout.keys.dim % kByteLines == 0 && can_read(layout.values.format) && layout.values.dim % kLine == 0;
}

class SpanValues {
 public:
  SpanValues(const Stretch& s, std::int64_t page, bool one_group, float* scratch)
      : s_(s),
        page_(page),
        one_group_(one_group),
        pairs_(reinterpret_cast<std::uint32_t*>(take(scratch, kSpanTokens / 2 * s.value_stride))),
        codes_(reinterpret_cast<std::uint32_t*>(take(scratch, kSpanTokens / 4 * s.value_stride))),
        scratch_(scratch) {}

  // Page p, of whose tokens those in [first, last) of the span are seen.
  QUIRE_INLINE void make(std::int64_t p, std::int64_t first, std::int64_t last) {
    const TileLayout& l = layout(p);
    const std::byte* tile = s_.tiles[page_ + p].values;
    next_.tiles[p] = next(p);
    std::uint32_t* codes = codes_ + p * (kLine / 4) * s_.value_stride;
    if (one_group_ && l.format != KvFormat::f16) {
      // Values are made when they are added.
    } else if (l.format == KvFormat::q8) {
      make_value_bytes<KvFormat::q8>(l, tile, codes);
    } else if (l.format == KvFormat::q4) {
      make_value_bytes<KvFormat::q4>(l, tile, codes);
    } else {
      return make_value_pairs(tile, s_.value_stride, first - p * kLine, last - p * kLine,
                              pairs_ + p * (kLine / 2) * s_.value_stride);
    }
    bytes_[p] = make_value_scales(l, tile, scratch_);
    fetch_scales(l, next_.tiles[p]);
  }
  const float* scratch_end() const { return scratch_; }
  bool any_in_bytes() const {
    return s_.wide.values.format != KvFormat::f16 || s_.packed.values.format != KvFormat::f16;
  }
  bool all_in_bytes(std::int64_t first_page, std::int64_t end_page) const {
    for (std::int64_t p = first_page; p < end_page; ++p) {
      if (!in_bytes(p)) return false;
    }
    return true;
  }

  // Weighted sums of pages that were made; what comes next is fetched for the first group alone.
  QUIRE_INLINE void add(const SoftmaxStates& states, const QueryGroup& group, GroupAtHand& at_hand, bool fetches) {
    for (std::int64_t p = group.first / kLine, end; p * kLine < group.last; p = end) {
      end = end_of_alike(p, group.last);
      add_alike(states, group, at_hand, p, end, fetches);
    }
  }
  // The same for the only group, each page made when its turn comes. The sums of bytes are rounded once for all.
  QUIRE_INLINE void make_and_add(const SoftmaxStates& states, const QueryGroup& group, GroupAtHand& at_hand) {
    for (std::int64_t p = group.first / kLine, end; p * kLine < group.last; p = end) {
      if (!in_bytes(p)) {
        add_as_made(states, group, at_hand, p);
        end = p + 1;
        continue;
      }
      end = end_of_alike(p, group.last);
      for (std::int64_t i = p; i < end; ++i) make(i, group.first, group.last);
      add_bytes(states, group, at_hand, p, end, true);
    }
  }

 private:
  QUIRE_INLINE const TileLayout& layout(std::int64_t p) const {
    return (s_.tiles[page_ + p].packed ? s_.packed : s_.wide).values;
  }
  QUIRE_INLINE bool in_bytes(std::int64_t p) const { return layout(p).format != KvFormat::f16; }

  // Pages from p on that are read as it is.
  QUIRE_INLINE std::int64_t end_of_alike(std::int64_t p, std::int64_t last) const {
    std::int64_t end = p + 1;
    while (end * kLine < last && in_bytes(end) == in_bytes(p)) ++end;
    return end;
  }

  QUIRE_INLINE const std::byte* next(std::int64_t p) const {
    return one_group_ ? fetched_in_step(s_, page_, kSpanPages + p) : tiles_ahead(s_, page_ + p).values;
  }

  // A page of f16.
  QUIRE_INLINE void add_as_made(const SoftmaxStates& states, const QueryGroup& group, GroupAtHand& at_hand,
                                std::int64_t p) {
    const std::uint32_t* weights[kByteQueries] = {};
    float* sums[kByteQueries] = {};
    for (int i = 0; i < group.count; ++i) {
      weights[i] = at_hand.weights[i] + p * kLine / 2;
      sums[i] = states.out + group.query[i] * s_.value_stride;
    }
    const std::int64_t first = group.first - p * kLine, last = group.last - p * kLine;
    const std::int64_t added = kByFewQueries<AddValuesOfF16>[group.count - 1](
        s_.tiles[page_ + p].values, s_.value_stride, first > 0 ? first : 0, last < kLine ? last : kLine, next(p),
        weights, sums);
    if (added == s_.value_stride) return;
    make(p, group.first, group.last);
    add_pairs(states, group, at_hand, p, p + 1, false, added);
  }

  // After 32 dimensions: what was fetched with them is behind.
  QUIRE_INLINE void advance(std::int64_t first_page, std::int64_t end_page, std::int64_t lines) {
    for (std::int64_t p = first_page; p < end_page; ++p) next_.tiles[p] += lines * kCacheLine;
  }

  QUIRE_INLINE void add_alike(const SoftmaxStates& states, const QueryGroup& group, GroupAtHand& at_hand,
                              std::int64_t first_page, std::int64_t end_page, bool fetches) {
    if (in_bytes(first_page)) {
      add_bytes(states, group, at_hand, first_page, end_page, fetches);
    } else {
      add_pairs(states, group, at_hand, first_page, end_page, fetches);
    }
  }

  QUIRE_INLINE void add_pairs(const SoftmaxStates& states, const QueryGroup& group, const GroupAtHand& at_hand,
                              std::int64_t first_page, std::int64_t end_page, bool fetches, std::int64_t from_dim = 0) {
    const std::int64_t first = first_page * kLine, end = end_page * kLine;
    const std::int64_t from = (group.first > first ? group.first : first) / 2;
    const std::int64_t to = ((group.last < end ? group.last : end) + 1) / 2;
    const int lines_each = fetches ? 2 : 0;
    const std::uint32_t* weights[kByteQueries] = {};
    for (int i = 0; i < group.count; ++i) weights[i] = at_hand.weights[i];
    for (std::int64_t d = from_dim; d < s_.value_stride; d += kLine) {
      float* sums[kByteQueries] = {};
      for (int i = 0; i < group.count; ++i) sums[i] = states.out + group.query[i] * s_.value_stride + d;
      ByLinesAndQueries<AddPairs>::with(lines_each, group.count)(pairs_ + d, s_.value_stride, from, to, weights, sums,
                                                                 next_);
      advance(first_page, end_page, lines_each * kLine / 2);
    }
  }

  QUIRE_INLINE void add_bytes(const SoftmaxStates& states, const QueryGroup& group, GroupAtHand& at_hand,
                              std::int64_t first_page, std::int64_t end_page, bool fetches) {
    const TileLayout& l = layout(first_page);
    const int lines_each = !fetches ? 0 : l.format == KvFormat::q8 ? 2 : 1;
    ValueTiles tiles{{}, {}, first_page, end_page};
    for (std::int64_t p = first_page; p < end_page; ++p) {
      tiles.tiles[p] = s_.tiles[page_ + p].values;
      tiles.next[p] = next_.tiles[p];
    }
    float units[kByteQueries] = {};
    for (std::int64_t d = 0; d < s_.value_stride; d += kLine) {
      const std::int64_t g = d / l.group_dims;
      const float of_all = d % l.group_dims == 0 ? largest_scale_of_all(g, first_page, end_page) : 0;
      for (int i = 0; d % l.group_dims == 0 && i < group.count; ++i) {
        const bool all = group.from[i] <= first_page * kLine && group.to[i] >= end_page * kLine;
        const float scale = all ? of_all : largest_scale_of(g, first_page, end_page, group.from[i], group.to[i]);
        units[i] = round_weights(at_hand.scores[i], bytes_, g, first_page, end_page, at_hand.largest[i] * scale,
                                 at_hand.bytes[i]);
      }
      float* sums[kByteQueries] = {};
      for (int i = 0; i < group.count; ++i) sums[i] = states.out + group.query[i] * s_.value_stride + d;
      if (one_group_) {
        with_byte_format(l.format, [&](auto format) QUIRE_LAMBDA {
          constexpr KvFormat kBytes = format == KvFormat::f16 ? KvFormat::q8 : format;  // f16 does not come here
          kByFewQueries<OfFormat<kBytes>::template AddBytes>[group.count - 1](tiles, s_.value_stride, d, at_hand.bytes,
                                                                              units, sums);
        });
        continue;
      }
      ByLinesAndQueries<AddBytes>::with(lines_each, group.count)(
          codes_ + d, s_.value_stride, first_page * kLine / 4, end_page * kLine / 4, at_hand.bytes, units, sums, next_);
      advance(first_page, end_page, lines_each * kLine / 4);
    }
  }

  QUIRE_INLINE float largest_scale_of_all(std::int64_t group, std::int64_t first_page, std::int64_t end_page) const {
    std::uint32_t largest = 0;
    for (std::int64_t p = first_page; p < end_page; ++p) {
      std::uint32_t bits;
      std::memcpy(&bits, bytes_[p].largest + group, sizeof bits);
      largest = bits > largest ? bits : largest;
    }
    float scale;
    std::memcpy(&scale, &largest, sizeof scale);
    return scale;
  }

  // Of the tokens [from, to) that a query sees, whoever else is computed with it, and whatever lies beside them.
  QUIRE_INLINE float largest_scale_of(std::int64_t group, std::int64_t first_page, std::int64_t end_page,
                                      std::int64_t from, std::int64_t to) const {
    float largest = 0;
    for (std::int64_t p = first_page; p < end_page; ++p) {
      const std::int64_t first = from - p * kLine, last = to - p * kLine;
      const bool whole = first <= 0 && last >= kLine;
      const float here =
          whole ? bytes_[p].largest[group] : largest_scale(bytes_[p].scales + group * kLine, first, last);
      if (!(here <= largest)) largest = here;
    }
    return largest;
  }

  const Stretch& s_;
  std::int64_t page_;
  bool one_group_;
  std::uint32_t* pairs_;  // [kSpanTokens / 2, dim]
  std::uint32_t* codes_;  // [kSpanTokens / 4, dim]
  float* scratch_;
  ByteValues bytes_[kSpanPages];
  NextValues next_{};
};

#endif

}  // namespace
}  // namespace quire
