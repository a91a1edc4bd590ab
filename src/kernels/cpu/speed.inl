// What an instruction set reaches with nothing in its way: memory read, and 8-bit products from registers.

namespace quire {
namespace {

std::uint64_t sum_bytes(const std::byte* memory, std::int64_t bytes) {  // a multiple of 256
  U8 sums[8] = {};
  for (std::int64_t i = 0; i < bytes; i += 256) {
    unrolled<8>([&](auto v) QUIRE_LAMBDA {
      U8 x;
      std::memcpy(&x, memory + i + 32 * v, sizeof x);
      sums[v] += x;
    });
  }
  std::uint64_t total = 0;
  for (const U8& sum : sums) {
    for (int lane = 0; lane < 8; ++lane) total += sum[lane];
  }
  return total;
}

#if defined(__AVX512VNNI__)
using ByteProducts = __m512i;
#else
using ByteProducts = I8;
#endif
constexpr std::int64_t kVectorBytes = sizeof(ByteProducts);

// sums[i] += the products of a vector of bytes with another, four to a lane. As an instruction set has them; nothing
// that compilers could compute once and for all.
template <int kSums>
QUIRE_INLINE void add_byte_products(std::uint8_t (&bytes)[kVectorBytes], ByteProducts (&sums)[kSums]) {
#if defined(__AVX512VNNI__)
  __m512i x = _mm512_load_si512(bytes);
  unrolled<kSums>([&](auto i) QUIRE_LAMBDA {
    asm volatile("" : "+v"(x));
    sums[i] = _mm512_dpbusd_epi32(sums[i], x, x);
  });
#elif defined(__AVX2__)
  __m256i x = _mm256_load_si256(reinterpret_cast<const __m256i*>(bytes));
  const __m256i ones = _mm256_set1_epi16(1);
  unrolled<kSums>([&](auto i) QUIRE_LAMBDA {
    asm volatile("" : "+x"(x));
    sums[i] += reinterpret_cast<I8>(_mm256_madd_epi16(_mm256_maddubs_epi16(x, x), ones));
  });
#else
  unrolled<kSums>([&](auto i) QUIRE_LAMBDA {
    asm volatile("" : "+m"(bytes));
    for (int k = 0; k < 32; ++k) sums[i][k / 4] += static_cast<std::int8_t>(bytes[k]) * bytes[k];
  });
#endif
}

// Returns the additions and multiplications it made.
std::int64_t int8_products(std::int64_t rounds) {
  constexpr int kSums = 12;  // so that none waits for the one before
  alignas(64) std::uint8_t bytes[kVectorBytes];
  std::memset(bytes, 3, sizeof bytes);
  ByteProducts sums[kSums] = {};
  for (std::int64_t r = 0; r < rounds; ++r) add_byte_products(bytes, sums);
  std::int64_t kept = 0;  // so that the sums are needed
  for (const ByteProducts& sum : sums) kept |= static_cast<std::int64_t>(sum[0]);
  return rounds * kSums * kVectorBytes * 2 + (kept == -1);
}

}  // namespace
}  // namespace quire
