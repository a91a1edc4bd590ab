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

constexpr float kMostSteps = 4095;

// What eight rows are scaled by, or one row eight times. A row's scales are whole numbers of its unit, so that products
// can scale in integers: the largest block's is as small as it can be, and others are too large by at most a unit,
// which adds nothing to the noise of the largest.
struct RowScales {
  QUIRE_INLINE explicit RowScales(__m256 largest)
      // Codes are zero for infinities and NaN too, and for rows so small that a division would overflow.
      : plain(_mm256_cmp_ps_mask(largest, _mm256_set1_ps(1e-30f), _CMP_GT_OQ) &
              _mm256_cmp_ps_mask(largest, _mm256_set1_ps(1e38f), _CMP_LT_OQ)),
        steps_in(_mm256_maskz_div_ps(plain, _mm256_set1_ps(kMostSteps), largest)),
        unit(_mm256_div_ps(largest, _mm256_set1_ps(127.f * kMostSteps))) {}
  __mmask8 plain;
  __m256 steps_in, unit;
};

// Of eight blocks.
struct BlockScales {
  QUIRE_INLINE BlockScales(const RowScales& row, __m256 largest)
      : steps(_mm256_min_ps(_mm256_ceil_ps(_mm256_mul_ps(largest, row.steps_in)), _mm256_set1_ps(kMostSteps))),
        scale(_mm256_mul_ps(row.unit, steps)) {
    const __mmask8 some = row.plain & _mm256_cmp_ps_mask(steps, _mm256_setzero_ps(), _CMP_GT_OQ);
    _mm256_store_ps(inverse, _mm256_maskz_div_ps(some, _mm256_set1_ps(1.f), scale));
  }
  QUIRE_INLINE __m256i whole_steps() const { return _mm256_cvtps_epi32(steps); }
  // Sums of bytes, times steps, in 1024ths.
  QUIRE_INLINE __m256i stepped(__m256i sum) const {
    const __m256i all = _mm256_mullo_epi32(sum, whole_steps());
    return _mm256_srai_epi32(_mm256_add_epi32(all, _mm256_set1_epi32(512)), 10);
  }
  __m256 steps, scale;
  alignas(32) float inverse[8];
};

// See joined.inl: less 8 times the codes, of the second as 16-fold, and the first half a turn up.
QUIRE_INLINE __m256i start_of_first(__m256i sum) {
  return _mm256_sub_epi32(_mm256_set1_epi32(0x8000), _mm256_slli_epi32(sum, 3));
}
QUIRE_INLINE __m256i start_of_second(__m256i sum) {
  return _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_slli_epi32(sum, 7));
}
// Two numbers of 16 bits.
QUIRE_INLINE __m256i side_by_side(__m256i first, __m256i second) {
  return _mm256_or_si256(_mm256_and_si256(first, _mm256_set1_epi32(0xffff)), _mm256_slli_epi32(second, 16));
}

QUIRE_INLINE __m512 sizes_of_block(const float* x) {
  return _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x)), _mm512_abs_ps(_mm512_loadu_ps(x + 16)));
}

// Codes of a block, the columns of each four in the order of panels. Returns sums of four.
QUIRE_INLINE __m256i round_block(const float* x, float inverse, std::int8_t* to) {
  const __m256i places =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  const auto code = [&](int half) QUIRE_LAMBDA {
    const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * half), _mm512_set1_ps(inverse));
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled));
  };
  const __m256i in_order = _mm256_set_m128i(code(1), code(0));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_shuffle_epi8(in_order, places));
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), in_order);
}

QUIRE_INLINE void store_eight(__m256i v, std::int32_t* to) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v); }

// Scales and sums of a tile's rows lie together and are made together, of rows that are not there too.
void quantize_rows_bytes(const float* x, std::int64_t tile, std::int64_t rows, const QuantizedRows& to) {
  const std::int64_t blocks = to.cols / kBlock;
  std::int64_t at = tile * blocks * kTileRows, pair = tile * ((blocks + 1) / 2) * kTileRows;
  __m256 largest = _mm256_setzero_ps();
  for (std::int64_t b = 0; b < blocks; ++b) {
    __m512 sizes[kTileRows];
    unrolled<8>([&](auto r) QUIRE_LAMBDA {
      sizes[r] = r < rows ? sizes_of_block(x + r * to.cols + b * kBlock) : _mm512_setzero_ps();
    });
    const __m256 of_block = largest_of_each(sizes);
    _mm256_storeu_ps(to.scale + at + b * kTileRows, of_block);
    largest = _mm256_max_ps(of_block, largest);
  }
  const RowScales row(largest);
  _mm256_storeu_ps(to.joined.unit + tile * kTileRows, row.unit);

  __m256i first_steps = _mm256_setzero_si256(), first_sums = _mm256_setzero_si256();
  for (std::int64_t b = 0; b < blocks; ++b, x += kBlock, at += kTileRows) {
    const BlockScales block(row, _mm256_loadu_ps(to.scale + at));
    _mm256_storeu_ps(to.scale + at, block.scale);
    __m256i fours[kTileRows];
    unrolled<8>([&](auto r) QUIRE_LAMBDA {
      fours[r] = r < rows ? round_block(x + r * to.cols, block.inverse[r], to.bytes + (at + r) * kBlock)
                          : _mm256_setzero_si256();
    });
    const HalfSums sums = sums_of_each(fours);
    const __m256i sum = _mm256_add_epi32(sums.first, sums.second);
    if (to.sums != nullptr) {
      const auto scaled = [&](__m256i of_codes)
                              QUIRE_LAMBDA { return _mm256_mul_ps(block.scale, _mm256_cvtepi32_ps(of_codes)); };
      store_halves(sums.first, sums.second, to.byte_sums + 2 * at);
      store_halves(_mm256_castps_si256(scaled(sums.first)), _mm256_castps_si256(scaled(sums.second)),
                   to.half_sums + 2 * at);
      _mm256_storeu_ps(to.sums + at, scaled(sum));
    }
    if (b % 2 == 0) {
      store_eight(start_of_first(sum), to.joined.starts + 2 * pair + kTileRows);
      first_steps = block.whole_steps();
      first_sums = block.stepped(sum);
    } else {
      store_eight(start_of_second(sum), to.joined.starts + 2 * pair);
      store_eight(side_by_side(first_steps, block.whole_steps()), to.joined.steps + pair);
      store_eight(side_by_side(first_sums, block.stepped(sum)), to.joined.sums + pair);
      pair += kTileRows;
    }
  }
}

// A row alone, where all weights are joined: eight of its blocks at a time. Every fourth of a step of decoding waits
// for this, on one thread.
constexpr std::int64_t kMostBlocksAlone = 1024;
void quantize_row_alone(const float* x, std::int64_t tile, const QuantizedRows& to) {
  const std::int64_t blocks = to.cols / kBlock, begin = tile * blocks * kTileRows;
  alignas(32) float sizes_of[kMostBlocksAlone];
  __m256 largest = _mm256_setzero_ps();
  for (std::int64_t b = 0; b < blocks; b += 8) {
    __m512 sizes[8];
    unrolled<8>([&](auto i) QUIRE_LAMBDA {
      sizes[i] = b + i < blocks ? sizes_of_block(x + (b + i) * kBlock) : _mm512_setzero_ps();
    });
    const __m256 of_blocks = largest_of_each(sizes);
    _mm256_store_ps(sizes_of + b, of_blocks);
    largest = _mm256_max_ps(of_blocks, largest);
  }
  const RowScales row(_mm256_set1_ps(horizontal_max(reinterpret_cast<F8>(largest))));
  to.joined.unit[tile * kTileRows] = _mm256_cvtss_f32(row.unit);

  for (std::int64_t b = 0; b < blocks; b += 8) {
    const BlockScales block(row, _mm256_load_ps(sizes_of + b));
    __m256i fours[8];
    unrolled<8>([&](auto i) QUIRE_LAMBDA {
      fours[i] = b + i < blocks ? round_block(x + (b + i) * kBlock, block.inverse[i],
                                              to.bytes + (begin + (b + i) * kTileRows) * kBlock)
                                : _mm256_setzero_si256();
    });
    const HalfSums sums = sums_of_each(fours);
    const __m256i sum = _mm256_add_epi32(sums.first, sums.second);
    alignas(32) std::int32_t first_start[8], second_start[8], steps[8], stepped[8];
    store_eight(start_of_first(sum), first_start);
    store_eight(start_of_second(sum), second_start);
    store_eight(block.whole_steps(), steps);
    store_eight(block.stepped(sum), stepped);
    const auto both = [](const std::int32_t* of) {
      return (of[0] & 0xffff) | static_cast<std::int32_t>(static_cast<std::uint32_t>(of[1]) << 16);
    };
    for (std::int64_t i = 0; i < 8 && b + i < blocks; i += 2) {
      const std::int64_t pair = begin / 2 + (b + i) / 2 * kTileRows;
      to.joined.starts[2 * pair] = second_start[i + 1];
      to.joined.starts[2 * pair + kTileRows] = first_start[i];
      to.joined.steps[pair] = both(steps + i);
      to.joined.sums[pair] = both(stepped + i);
    }
  }
}

// Codes [-127, 127] with a scale per block.
void quantize_tile_bytes(const float* x, std::int64_t tile, std::int64_t rows, const QuantizedRows& to) {
  const bool alone = rows == 1 && to.sums == nullptr && to.cols <= kMostBlocksAlone * kBlock;
  return alone ? quantize_row_alone(x, tile, to) : quantize_rows_bytes(x, tile, rows, to);
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
