// Activations of 8 bits, where an instruction multiplies four unsigned bytes with four signed ones and adds them up.
// Weights are made unsigned by an offset, which is taken off again by the sum of the activations it was multiplied
// with.

namespace quire {
namespace {

// Codes [-127, 127] with a scale per block, the columns of each four in the order of panels.
void quantize_row_bytes(const float* x, std::int64_t row, const QuantizedRows& to) {
  const std::int64_t blocks = to.cols / kBlock;
  std::int8_t* codes = to.bytes + row * to.cols;
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, codes += kBlock) {
    const std::int64_t at = row * blocks + b;
    const float largest = largest_of_block(x);
    const float scale = largest / 127;
    const float inverse = largest > 1e-30f && largest < 1e38f ? 127 / largest : 0.f;
    to.scale[at] = scale;
    std::int32_t total = 0;
    for (int half = 0; half < 2; ++half) {
      const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * half), _mm512_set1_ps(inverse));
      const __m128i in_order = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled));
      const __m128i places = _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + 16 * half), _mm_shuffle_epi8(in_order, places));
      const __m128i fours = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), in_order);
      const __m128i twos = _mm_hadd_epi32(fours, fours);
      const std::int32_t sum = _mm_cvtsi128_si32(twos) + _mm_extract_epi32(twos, 1);
      to.byte_sums[2 * at + half] = sum;
      to.half_sums[2 * at + half] = scale * static_cast<float>(sum);
      total += sum;
    }
    to.sums[at] = scale * static_cast<float>(total);
  }
}

struct ByteRows {
  const QuantizedRows* x;
  const std::int8_t* q;  // of the first row, in the block at hand
  const std::int32_t* sums_of_first;

  QUIRE_INLINE ByteRows(const QuantizedRows& rows, std::int64_t row)
      : x(&rows), q(rows.bytes + row * rows.cols), sums_of_first(rows.byte_sums + row * (rows.cols / 16)) {}
  QUIRE_INLINE void next_block() { q += kBlock; }

  template <class F>
  static constexpr std::int32_t kOffset = F::kCodes == Codes::nibbles          ? 0
                                          : F::kCodes == Codes::signed_nibbles ? 8
                                                                               : 128;

  // What the offset adds in half a block, or in a whole one.
  template <class F, int kRows>
  QUIRE_INLINE void clear(std::int64_t half, RowInts<kRows>& sums) const {
    unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
      const std::int32_t* of_row = sums_of_first + r * (x->cols / 16) + half;
      const std::int32_t codes = F::kHalfScales ? of_row[0] : of_row[0] + of_row[1];
      sums[r][0] = kOffset<F> == 0 ? LaneInts{} : reinterpret_cast<LaneInts>(_mm512_set1_epi32(-kOffset<F> * codes));
    });
  }

  template <class F, int kRows>
  QUIRE_INLINE void add_half(int half, const std::uint8_t* codes, RowInts<kRows>& sums) const {
    const std::int8_t* at = q + 16 * half;
    const auto add_four = [&](__m512i weights, std::int64_t column) QUIRE_LAMBDA {
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
        std::int32_t four;
        std::memcpy(&four, at + column + r * x->cols, sizeof four);
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
