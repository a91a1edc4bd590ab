// Activations of 8 bits, where an instruction multiplies four unsigned bytes with four signed ones and adds them up.
// Weights are made unsigned by an offset, which is taken off again by the sum of the activations it was multiplied
// with.

namespace quire {
namespace {

static_assert(kTileRows == 8 && kBlock == 32);

// Lane r: the largest of row r's lanes.
QUIRE_INLINE __m256 largest_of_each(const __m512 (&rows)[kTileRows]) {
  __m256 eight[kTileRows], four[4], two[2];
  unrolled<8>([&](auto r) QUIRE_LAMBDA {
    eight[r] = _mm256_max_ps(_mm512_castps512_ps256(rows[r]),
                             _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(rows[r]), 1)));
  });
  unrolled<4>([&](auto i) QUIRE_LAMBDA {
    const __m256 a = eight[2 * i], b = eight[2 * i + 1];
    four[i] = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
  });
  unrolled<2>([&](auto i) QUIRE_LAMBDA {
    const __m256d a = _mm256_castps_pd(four[2 * i]), b = _mm256_castps_pd(four[2 * i + 1]);
    two[i] = _mm256_max_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)), _mm256_castpd_ps(_mm256_unpackhi_pd(a, b)));
  });
  return _mm256_max_ps(_mm256_permute2f128_ps(two[0], two[1], 0x20), _mm256_permute2f128_ps(two[0], two[1], 0x31));
}

// Lane r: the sum of row r's first four lanes, or of its last four.
struct HalfSums {
  __m256i first, second;
};
QUIRE_INLINE HalfSums sums_of_each(const __m256i (&rows)[kTileRows]) {
  __m256i four[4], two[2];
  unrolled<4>([&](auto i) QUIRE_LAMBDA {
    const __m256i a = rows[2 * i], b = rows[2 * i + 1];
    four[i] = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  });
  unrolled<2>([&](auto i) QUIRE_LAMBDA {
    const __m256i a = four[2 * i], b = four[2 * i + 1];
    two[i] = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
  });
  return {_mm256_permute2x128_si256(two[0], two[1], 0x20), _mm256_permute2x128_si256(two[0], two[1], 0x31)};
}
// Numbers of a row side by side.
QUIRE_INLINE void store_halves(__m256i first, __m256i second, void* to) {
  const __m256i low = _mm256_unpacklo_epi32(first, second), high = _mm256_unpackhi_epi32(first, second);
  auto* at = static_cast<__m256i*>(to);
  _mm256_storeu_si256(at, _mm256_permute2x128_si256(low, high, 0x20));
  _mm256_storeu_si256(at + 1, _mm256_permute2x128_si256(low, high, 0x31));
}

// Codes [-127, 127] with a scale per block, the columns of each four in the order of panels. Scales and sums of the
// tile's rows lie together and are made together, of rows that are not there too.
void quantize_tile_bytes(const float* x, std::int64_t tile, std::int64_t rows, const QuantizedRows& to) {
  const __m256i places =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  const std::int64_t blocks = to.cols / kBlock;
  std::int64_t at = tile * blocks * kTileRows;
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, at += kTileRows) {
    __m512 sizes[kTileRows];
    unrolled<8>([&](auto r) QUIRE_LAMBDA {
      sizes[r] = _mm512_setzero_ps();
      if (r >= rows) return;
      const float* row = x + r * to.cols;
      sizes[r] = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(row)), _mm512_abs_ps(_mm512_loadu_ps(row + 16)));
    });
    const __m256 largest = largest_of_each(sizes);
    // Zero for infinities and NaN too, and for blocks so small that 127 / largest would overflow.
    const __mmask8 plain = _mm256_cmp_ps_mask(largest, _mm256_set1_ps(1e-30f), _CMP_GT_OQ) &
                           _mm256_cmp_ps_mask(largest, _mm256_set1_ps(1e38f), _CMP_LT_OQ);
    const __m256 scale = _mm256_div_ps(largest, _mm256_set1_ps(127.f));
    alignas(32) float inverse[kTileRows];
    _mm256_store_ps(inverse, _mm256_maskz_div_ps(plain, _mm256_set1_ps(127.f), largest));
    _mm256_storeu_ps(to.scale + at, scale);

    __m256i fours[kTileRows];
    unrolled<8>([&](auto r) QUIRE_LAMBDA {
      fours[r] = _mm256_setzero_si256();
      if (r >= rows) return;
      const __m512 factor = _mm512_set1_ps(inverse[r]);
      const auto code = [&](int half) QUIRE_LAMBDA {
        const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + r * to.cols + 16 * half), factor);
        return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled));
      };
      const __m256i in_order = _mm256_set_m128i(code(1), code(0));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to.bytes + (at + r) * kBlock),
                          _mm256_shuffle_epi8(in_order, places));
      fours[r] = _mm256_dpbusd_epi32(fours[r], _mm256_set1_epi8(1), in_order);
    });
    const HalfSums sums = sums_of_each(fours);
    const auto scaled = [&](__m256i sum) QUIRE_LAMBDA { return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(sum)); };
    store_halves(sums.first, sums.second, to.byte_sums + 2 * at);
    store_halves(_mm256_castps_si256(scaled(sums.first)), _mm256_castps_si256(scaled(sums.second)),
                 to.half_sums + 2 * at);
    _mm256_storeu_ps(to.sums + at, scaled(_mm256_add_epi32(sums.first, sums.second)));
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
