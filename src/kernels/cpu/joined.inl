// Products of bytes with weights of four bits, two blocks of 32 columns at once. A block's sum of 4-bit codes, less 8,
// times bytes fits 16 bits; so the sums of two blocks lie in one 32-bit lane, and one instruction multiplies both by
// their scales, as whole numbers of 16 bits, and adds them up. With floats it takes two multiplications and one for the
// minima for each block; they share their units with the products of bytes, which then take longer.
//
//   panel:  pair of blocks after pair of blocks, then what their minima are, then the units
//   pair:   codes [8][16 rows][4 columns, the first block's in low halves, the second's in high ones] | scales [16][2]
//   minima: [16][2], pair after pair, of codes less 8
//   units:  of scales [16], of minima [16], as floats
//
// Scales are 15 bits of a row's largest, minima 12. Nothing rounds but scales times steps, to 12 bits of the largest.
#include "kernels/cpu/matmul.inl"

namespace quire {
namespace {

constexpr float kMostScale = 32767, kMostMin = 4095;

template <class F>
struct Joined {
  static constexpr bool kFits = F::kCodes != Codes::bytes && !F::kHalfScales;
  static constexpr std::int64_t kCodeBytes = kPanelRows * kBlock;
  static constexpr std::int64_t kPairBytes = kCodeBytes + kPanelRows * 4;
  static constexpr std::int64_t kMinimaBytes = F::kMinima ? kPanelRows * 4 : 0;
  static constexpr std::int64_t kUnitBytes = 2 * kPanelRows * static_cast<std::int64_t>(sizeof(float));

  static std::int64_t panel_bytes(std::int64_t cols) {
    return cols / (2 * kBlock) * (kPairBytes + kMinimaBytes) + kUnitBytes;
  }
};

std::int64_t joined_panel_bytes(DType type, std::int64_t cols) {
  std::int64_t bytes = 0;
  with_format(type, [&]<class F>(F) {
    if (Joined<F>::kFits && cols % (2 * kBlock) == 0) bytes = Joined<F>::panel_bytes(cols);
  });
  return bytes;
}

// Numbers as whole numbers of a unit, up to `most` for the largest.
struct Unit {
  float largest = 0;

  void see(float v) { largest = __builtin_fabsf(v) > largest || v != v ? __builtin_fabsf(v) : largest; }
  // Zero where the largest is an infinity or NaN: times the unit, that is NaN.
  std::int16_t count(float v, float most) const {
    return largest > 0 && largest < 1e38f ? static_cast<std::int16_t>(rounded(v * (most / largest))) : std::int16_t{0};
  }
  float size(float most) const { return largest / most; }
};

// body(block, codes, scale, minimum of codes less 8)
template <class F, class Body>
QUIRE_INLINE void each_block(const std::uint8_t* row, std::int64_t cols, Body&& body) {
  for (std::int64_t i = 0; i < cols / F::kValues; ++i, row += F::kBytes) {
    std::int16_t codes[F::kValues];
    float scale[F::kValues / 16], min[F::kValues / 16];
    F::unpack(row, codes, scale, min);
    for (std::int64_t g = 0; g < F::kValues / kBlock; ++g) {
      float above = 0;
      if constexpr (F::kMinima) above = min[2 * g] + 8 * scale[2 * g];
      body(i * (F::kValues / kBlock) + g, codes + g * kBlock, scale[2 * g], above);
    }
  }
}

// A block's codes as bytes, each four in the order of places.
QUIRE_INLINE __m256i bytes_in_places(const std::int16_t* codes, std::int16_t offset) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
  const __m512i above_zero = _mm512_add_epi16(_mm512_loadu_si512(codes), _mm512_set1_epi16(offset));
  return _mm256_shuffle_epi8(_mm512_cvtepi16_epi8(above_zero), order);
}

void pack_joined(DType type, const std::byte* rows, std::int64_t count, std::int64_t cols, std::byte* panel) {
  with_format(type, [&]<class F>(F) {
    if constexpr (Joined<F>::kFits) {
      using J = Joined<F>;
      const std::int64_t pairs = cols / (2 * kBlock);
      auto* out = reinterpret_cast<std::uint8_t*>(panel);
      std::uint8_t* minima = out + pairs * J::kPairBytes;
      std::uint8_t* units = minima + pairs * J::kMinimaBytes;
      if (count < kPanelRows) std::memset(out, 0, static_cast<std::size_t>(J::panel_bytes(cols)));
      for (std::int64_t r = 0; r < count; ++r) {
        const auto* row = reinterpret_cast<const std::uint8_t*>(rows) + r * (cols / F::kValues * F::kBytes);
        Unit scales, mins;
        each_block<F>(row, cols, [&](std::int64_t, const std::int16_t*, float scale, float min) {
          scales.see(scale);
          mins.see(min);
        });
        __m256i even = _mm256_setzero_si256();
        each_block<F>(row, cols, [&](std::int64_t b, const std::int16_t* codes, float scale, float min) QUIRE_LAMBDA {
          std::uint8_t* pair = out + b / 2 * J::kPairBytes;
          const __m256i bytes = bytes_in_places(codes, F::kCodes == Codes::signed_nibbles ? 8 : 0);
          if (b % 2 == 0) {
            even = bytes;
          } else {
            std::uint32_t words[8];
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), _mm256_or_si256(even, _mm256_slli_epi16(bytes, 4)));
            for (std::int64_t j = 0; j < 8; ++j) std::memcpy(pair + (j * kPanelRows + r) * 4, words + j, 4);
          }
          const std::int64_t at = 4 * r + 2 * (b % 2);
          const std::int16_t whole = scales.count(scale, kMostScale), whole_min = mins.count(min, kMostMin);
          std::memcpy(pair + J::kCodeBytes + at, &whole, sizeof whole);
          if constexpr (F::kMinima) std::memcpy(minima + b / 2 * J::kMinimaBytes + at, &whole_min, sizeof whole_min);
        });
        const float unit = scales.size(kMostScale) * 32768, min_unit = mins.size(kMostMin) * 1024;
        std::memcpy(units + 4 * r, &unit, sizeof unit);
        std::memcpy(units + 4 * (kPanelRows + r), &min_unit, sizeof min_unit);
      }
    }
  });
}

// Rows that are multiplied together, and panels: what is spread of a row is multiplied with each panel, and what is
// loaded of a panel with each row. Machines load as many vectors as they multiply, so neither may be one where there
// are more; sums of both blocks of a pair at once are enough not to wait for one another.
constexpr int kJoinedRows = 4, kJoinedPanels = 2;

template <class F, int kRows, int kPanels>
QUIRE_INLINE void dot_joined(const std::byte* panel, const QuantizedRows& x, std::int64_t row, const PanelOutput& to) {
  using J = Joined<F>;
  const std::int64_t pairs = x.cols / (2 * kBlock), in_tile = row % kTileRows;
  const std::int64_t place = row / kTileRows * pairs * kTileRows + in_tile;  // counted in rows of pairs
  const std::int64_t panel_bytes = J::panel_bytes(x.cols);
  const auto* at = reinterpret_cast<const std::uint8_t*>(panel);  // in the first panel
  const std::int8_t* q = x.bytes + (row / kTileRows * 2 * pairs * kTileRows + in_tile) * kBlock;
  const std::int32_t* starts = x.joined.starts + 2 * (place - in_tile) + in_tile;
  const std::int32_t* steps = x.joined.steps + place;
  // A single row takes less time than its weights take to come. A little at a time: a burst of fetches stops the core.
  const auto fetch_later = [&](std::int64_t from, std::int64_t bytes) QUIRE_LAMBDA {
    for (std::int64_t line = from; kRows == 1 && line < from + bytes; line += 64) {
      __builtin_prefetch(at + kAheadBytes + line);
    }
  };
  const auto of_panel = [&](auto p, std::int64_t offset)
                            QUIRE_LAMBDA { return _mm512_loadu_si512(at + p * panel_bytes + offset); };
  // Once for all panels: compilers would rather load it with every product.
  const auto spread_int = [](const void* from) QUIRE_LAMBDA {
    std::int32_t number;
    std::memcpy(&number, from, sizeof number);
    __m512i spread = _mm512_set1_epi32(number);
    if constexpr (kPanels > 1) asm("" : "+v"(spread));
    return spread;
  };
  const auto each_sum = [](auto&& body) QUIRE_LAMBDA {
    unrolled<kRows>([&](auto r) QUIRE_LAMBDA { unrolled<kPanels>([&](auto p) QUIRE_LAMBDA { body(r, p); }); });
  };
  const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8(static_cast<char>(0xf0));
  const __m512i half_turn = _mm512_set1_epi32(0x8000);

  // At most two products of 32512 and 4095 a pair: eight pairs fit an int32.
  constexpr std::int64_t kPairsAtOnce = 8;
  __m512 sums[kRows][kPanels];
  each_sum([&](auto r, auto p) QUIRE_LAMBDA { sums[r][p] = _mm512_setzero_ps(); });
  for (std::int64_t begin = 0; begin < pairs; begin += kPairsAtOnce) {
    __m512i scaled[kRows][kPanels];
    each_sum([&](auto r, auto p) QUIRE_LAMBDA { scaled[r][p] = _mm512_setzero_si512(); });
    for (std::int64_t i = begin; i < pairs && i < begin + kPairsAtOnce; ++i) {
      __m512i first[kRows][kPanels], second[kRows][kPanels];
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
        const __m512i of_first = spread_int(starts + kTileRows + r), of_second = spread_int(starts + r);
        unrolled<kPanels>([&](auto p) QUIRE_LAMBDA {
          first[r][p] = of_first;
          second[r][p] = of_second;
        });
      });
      const auto add_four = [&](auto j, __m512i mask, const std::int8_t* bytes,
                                __m512i(&to_sums)[kRows][kPanels]) QUIRE_LAMBDA {
        __m512i codes[kPanels];
        unrolled<kPanels>([&](auto p) QUIRE_LAMBDA { codes[p] = _mm512_and_si512(of_panel(p, 64 * j), mask); });
        unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
          const __m512i four = spread_int(bytes + r * kBlock + 4 * j);
          unrolled<kPanels>([&](auto p)
                                QUIRE_LAMBDA { to_sums[r][p] = _mm512_dpbusd_epi32(to_sums[r][p], codes[p], four); });
        });
      };
      unrolled<8>([&](auto j) QUIRE_LAMBDA {
        fetch_later(64 * j, 64);
        add_four(j, low, q, first);
        add_four(j, high, q + kTileRows * kBlock, second);
      });
      fetch_later(J::kCodeBytes, J::kPairBytes - J::kCodeBytes);
      __m512i scales[kPanels];
      unrolled<kPanels>([&](auto p) QUIRE_LAMBDA { scales[p] = of_panel(p, J::kCodeBytes); });
      unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
        const __m512i step = spread_int(steps + r);
        unrolled<kPanels>([&](auto p) QUIRE_LAMBDA {
          // The second block's codes are 16-fold: 12 bits more, and its sums are in the high halves. The first block's
          // started half a turn up, so that none borrowed from the second's.
          const __m512i both = _mm512_add_epi32(first[r][p], _mm512_slli_epi32(second[r][p], 12));
          scaled[r][p] = _mm512_dpwssd_epi32(scaled[r][p], _mm512_xor_si512(both, half_turn),
                                             _mm512_mulhrs_epi16(scales[p], step));
        });
      });
      at += J::kPairBytes;
      q += 2 * kTileRows * kBlock;
      starts += 2 * kTileRows;
      steps += kTileRows;
    }
    each_sum([&](auto r, auto p)
                 QUIRE_LAMBDA { sums[r][p] = _mm512_add_ps(sums[r][p], _mm512_cvtepi32_ps(scaled[r][p])); });
  }

  __m512 minima[kRows][kPanels];
  each_sum([&](auto r, auto p) QUIRE_LAMBDA { minima[r][p] = _mm512_setzero_ps(); });
  if constexpr (F::kMinima) {
    constexpr std::int64_t kMinimaAtOnce = 16;  // products of 16253 and 4095
    const std::int32_t* byte_sums = x.joined.sums + place;
    for (std::int64_t begin = 0; begin < pairs; begin += kMinimaAtOnce) {
      __m512i whole[kRows][kPanels];
      each_sum([&](auto r, auto p) QUIRE_LAMBDA { whole[r][p] = _mm512_setzero_si512(); });
      for (std::int64_t i = begin; i < pairs && i < begin + kMinimaAtOnce; ++i) {
        fetch_later(0, J::kMinimaBytes);
        unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
          const __m512i sum = spread_int(byte_sums + r);
          unrolled<kPanels>([&](auto p)
                                QUIRE_LAMBDA { whole[r][p] = _mm512_dpwssd_epi32(whole[r][p], of_panel(p, 0), sum); });
        });
        at += J::kMinimaBytes;
        byte_sums += kTileRows;
      }
      each_sum([&](auto r, auto p)
                   QUIRE_LAMBDA { minima[r][p] = _mm512_add_ps(minima[r][p], _mm512_cvtepi32_ps(whole[r][p])); });
    }
  }

  fetch_later(0, J::kUnitBytes);
  unrolled<kPanels>([&](auto p) QUIRE_LAMBDA {
    const auto* units = reinterpret_cast<const float*>(at + p * panel_bytes);
    const __m512 unit = _mm512_loadu_ps(units), min_unit = _mm512_loadu_ps(units + kPanelRows);
    RowSums<kRows> products;
    unrolled<kRows>([&](auto r) QUIRE_LAMBDA {
      const __m512 of_weights = _mm512_fmadd_ps(sums[r][p], unit, _mm512_mul_ps(minima[r][p], min_unit));
      products[r][0] = _mm512_mul_ps(of_weights, _mm512_set1_ps(x.joined.unit[row + r]));
    });
    store_products<kRows>(products, to.panel(p));
  });
}

// x by value: as in multiply_panels_with.
void multiply_joined(DType type, PanelProducts p, QuantizedRows x, std::int64_t rows) {
  with_format(type, [=]<class F>(F) {
    if constexpr (Joined<F>::kFits) {
      each_tile<kJoinedRows, kJoinedPanels>(
          p, Joined<F>::panel_bytes(x.cols), rows,
          [&](auto count, auto panels, std::int64_t row, const std::byte* panel, const PanelOutput& to)
              QUIRE_LAMBDA { dot_joined<F, count, panels>(panel, x, row, to); });
    }
  });
}

constexpr JoinedKernels kJoinedKernels{joined_panel_bytes, pack_joined, multiply_joined};

}  // namespace
}  // namespace quire
