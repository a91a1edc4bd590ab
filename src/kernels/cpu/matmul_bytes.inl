// Activations of 8 bits, where an instruction multiplies four unsigned bytes with four signed ones and adds them up.
// Weights are made unsigned by an offset, which is taken off again by the sum of the activations it was multiplied
// with.

namespace quire {
namespace {

// Codes [-127, 127] with a scale per block, the columns of each four in the order of panels.
void quantize_row_bytes(const float* x, std::int64_t row, const QuantizedRows& to) {
  const std::int64_t blocks = to.cols / kBlock;
  std::int64_t at = place_of_row(row, to.cols);
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, at += kTileRows) {
    const float largest = largest_of_block(x);
    const float scale = largest / 127;
    const float inverse = largest > 1e-30f && largest < 1e38f ? 127 / largest : 0.f;
    to.scale[at] = scale;
    const auto code = [&](int half) QUIRE_LAMBDA {
      const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * half), _mm512_set1_ps(inverse));
      return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled));
    };
    const __m256i in_order = _mm256_set_m128i(code(1), code(0));
    const __m256i places =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.bytes + at * kBlock), _mm256_shuffle_epi8(in_order, places));
    // Sums of eight, of codes made unsigned.
    const __m256i unsigned_codes = _mm256_xor_si256(in_order, _mm256_set1_epi8(static_cast<char>(0x80)));
    const __m256i eights = _mm256_sad_epu8(unsigned_codes, _mm256_setzero_si256());
    const __m256i halves = _mm256_add_epi64(eights, _mm256_unpackhi_epi64(eights, eights));
    const std::int32_t first = _mm256_extract_epi32(halves, 0) - 16 * 128,
                       second = _mm256_extract_epi32(halves, 4) - 16 * 128;
    to.byte_sums[2 * at] = first;
    to.byte_sums[2 * at + 1] = second;
    to.half_sums[2 * at] = scale * static_cast<float>(first);
    to.half_sums[2 * at + 1] = scale * static_cast<float>(second);
    to.sums[at] = scale * static_cast<float>(first + second);
  }
}

struct ByteRows {
  const std::int8_t* q;  // of the first row, in the block at hand
  const std::int32_t* sums_of_first;

  QUIRE_INLINE ByteRows(const QuantizedRows& x, std::int64_t place)
      : q(x.bytes + place * kBlock), sums_of_first(x.byte_sums + 2 * place) {}
  QUIRE_INLINE void next_block() {
    q += kTileRows * kBlock;
    sums_of_first += 2 * kTileRows;
  }

  template <class F>
  static constexpr std::int32_t kOffset = F::kCodes == Codes::nibbles          ? 0
                                          : F::kCodes == Codes::signed_nibbles ? 8
                                                                               : 128;

  // What the offset adds in half a block, or in a whole one.
  template <class F, int kRows>
  QUIRE_INLINE void clear(int half, RowInts<kRows>& sums) const {
    unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
      const std::int32_t* of_row = sums_of_first + 2 * r;
      const std::int32_t codes = F::kHalfScales ? of_row[half] : of_row[0] + of_row[1];
      sums[r][0] = kOffset<F> == 0 ? LaneInts{} : reinterpret_cast<LaneInts>(_mm512_set1_epi32(-kOffset<F> * codes));
    });
  }

  template <class F, int kRows>
  QUIRE_INLINE void add_half(int half, const std::uint8_t* codes, RowInts<kRows>& sums) const {
    const std::int8_t* at = q + 16 * half;
    const auto add_four = [&](__m512i weights, std::int64_t column) QUIRE_LAMBDA {
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
        std::int32_t four;
        std::memcpy(&four, at + column + r * kBlock, sizeof four);
        sums[r][0] = reinterpret_cast<LaneInts>(
            _mm512_dpbusd_epi32(reinterpret_cast<__m512i>(sums[r][0]), weights, _mm512_set1_epi32(four)));
      });
    };
    if constexpr (Panel<F>::kNibbles) {
      unrolled<2>([&](auto j) QUIRE_LAMBDA {
        __m512i both = _mm512_loadu_si512(codes + 64 * j);
        if constexpr (kOffset<F> == 8) both = _mm512_xor_si512(both, _mm512_set1_epi8(static_cast<char>(0x88)));
        const __m512i low = _mm512_set1_epi8(15);
        add_four(_mm512_and_si512(both, low), 8 * j);
        add_four(_mm512_and_si512(_mm512_srli_epi16(both, 4), low), 8 * j + 4);
      });
    } else {
      unrolled<4>([&](auto j) QUIRE_LAMBDA {
        const __m512i bytes = _mm512_loadu_si512(codes + 64 * j);
        add_four(_mm512_xor_si512(bytes, _mm512_set1_epi8(static_cast<char>(0x80))), 4 * j);
      });
    }
  }
};

}  // namespace
}  // namespace quire
