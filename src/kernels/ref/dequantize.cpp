#include "kernels/ref/dequantize.h"

#include <array>
#include <cstring>

#include "core/check.h"
#include "core/half.h"

// Each function decodes one block. The drawings give the block's fields in the order in which they
// are stored, with their bytes; all numbers are little endian. The arithmetic is written in the order
// that other GGUF readers use, one rounding per operation, so that results agree to the last bit.

namespace quire {
namespace {

using Bytes = const std::uint8_t*;

std::uint16_t u16_at(Bytes p) { return static_cast<std::uint16_t>(p[0] | p[1] << 8); }
float half_at(Bytes p) { return f16_to_f32(u16_at(p)); }
float to_float(int value) { return static_cast<float>(value); }

// Blocks of 32: value i < 16 is the low nibble of byte i, value 16 + i its high nibble.
int nibble_of_32(Bytes quants, int i) { return i < 16 ? quants[i] & 15 : quants[i - 16] >> 4; }

void f32_value(Bytes p, float* out) { std::memcpy(out, p, sizeof(float)); }
void f16_value(Bytes p, float* out) { *out = half_at(p); }
void bf16_value(Bytes p, float* out) { *out = bf16_to_f32(u16_at(p)); }

// | scale f16: 2 | 32 nibbles: 16 |                          value = scale * (nibble - 8)
void q4_0_block(Bytes p, float* out) {
  const float scale = half_at(p);
  for (int i = 0; i < 32; ++i) out[i] = scale * to_float(nibble_of_32(p + 2, i) - 8);
}

// | scale f16: 2 | minimum f16: 2 | 32 nibbles: 16 |         value = scale * nibble + minimum
void q4_1_block(Bytes p, float* out) {
  const float scale = half_at(p);
  const float minimum = half_at(p + 2);
  for (int i = 0; i < 32; ++i) out[i] = scale * to_float(nibble_of_32(p + 4, i)) + minimum;
}

// The fifth bit of value i is bit i of a 32-bit number.
int fifth_bit_of_32(Bytes bits, int i) { return (bits[i / 8] >> (i % 8) & 1) << 4; }

// | scale f16: 2 | 32 fifth bits: 4 | 32 nibbles: 16 |       value = scale * (quant - 16)
void q5_0_block(Bytes p, float* out) {
  const float scale = half_at(p);
  for (int i = 0; i < 32; ++i) {
    const int quant = nibble_of_32(p + 6, i) | fifth_bit_of_32(p + 2, i);
    out[i] = scale * to_float(quant - 16);
  }
}

// | scale f16: 2 | minimum f16: 2 | 32 fifth bits: 4 | 32 nibbles: 16 |
// value = scale * quant + minimum
void q5_1_block(Bytes p, float* out) {
  const float scale = half_at(p);
  const float minimum = half_at(p + 2);
  for (int i = 0; i < 32; ++i) {
    const int quant = nibble_of_32(p + 8, i) | fifth_bit_of_32(p + 4, i);
    out[i] = scale * to_float(quant) + minimum;
  }
}

// | scale f16: 2 | 32 x int8: 32 |                           value = scale * quant
void q8_0_block(Bytes p, float* out) {
  const float scale = half_at(p);
  for (int i = 0; i < 32; ++i) out[i] = scale * to_float(static_cast<std::int8_t>(p[2 + i]));
}

// The "K" types have blocks of 256 with a scale for each run of 16 or 32 values, itself a small
// integer times the block's f16 scale. Their low bits are packed so that 32 consecutive bytes hold
// the same bits of 32 consecutive values; the next 32 values sit in higher bits of the same bytes.

// Two bits each: 128 values per 32 bytes.
int two_bits(Bytes quants, int i) { return quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3; }
// Four bits each: 64 values per 32 bytes.
int four_bits(Bytes quants, int i) { return quants[i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15; }
// One bit each: all 256 values in 32 bytes.
int one_bit(Bytes bits, int i) { return bits[i % 32] >> (i / 32) & 1; }

// | 16 x (scale low nibble, minimum high nibble): 16 | 256 x 2 bits: 64 | d f16: 2 | dmin f16: 2 |
// A scale and a minimum for 16 values:                value = d * scale * quant - dmin * minimum
void q2_k_block(Bytes p, float* out) {
  const float d = half_at(p + 80);
  const float dmin = half_at(p + 82);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * to_float(p[i / 16] & 15);
    const float minimum = dmin * to_float(p[i / 16] >> 4);
    out[i] = scale * to_float(two_bits(p + 16, i)) - minimum;
  }
}

// Sixteen 6-bit scales in 12 bytes, biased by 32. Byte j < 8 holds the low nibbles of scales j and
// 8 + j. Byte 8 + j, j < 4, holds the upper two bits of scales j, 4 + j, 8 + j and 12 + j.
int q3_k_scale(Bytes packed, int j) {
  const int low = packed[j % 8] >> (j / 8 * 4) & 15;
  const int high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
  return (low | high << 4) - 32;
}

// | 256 third bits: 32 | 256 x 2 bits: 64 | 16 scales: 12 | d f16: 2 |
// A scale for 16 values. A clear third bit means minus 4:       value = d * scale * quant
void q3_k_block(Bytes p, float* out) {
  const float d = half_at(p + 108);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * to_float(q3_k_scale(p + 96, i / 16));
    const int quant = two_bits(p + 32, i) + (one_bit(p, i) << 2) - 4;
    out[i] = scale * to_float(quant);
  }
}

// Eight 6-bit scales and eight 6-bit minima in 12 bytes: the first four of each are the low six bits
// of bytes 0-3 and 4-7. The last four have their low nibbles in bytes 8-11 (scale low, minimum high)
// and their upper two bits above the six of bytes 0-3 and 4-7.
struct ScaleAndMinimum {
  int scale;
  int minimum;
};
ScaleAndMinimum q45_k_scale(Bytes packed, int j) {
  if (j < 4) return {packed[j] & 63, packed[4 + j] & 63};
  return {(packed[4 + j] & 15) | packed[j - 4] >> 6 << 4, packed[4 + j] >> 4 | packed[j] >> 6 << 4};
}

// | d f16: 2 | dmin f16: 2 | 8 scales, 8 minima: 12 | 256 nibbles: 128 |
// A scale and a minimum for 32 values:                value = d * scale * nibble - dmin * minimum
void q4_k_block(Bytes p, float* out) {
  const float d = half_at(p);
  const float dmin = half_at(p + 2);
  for (int i = 0; i < 256; ++i) {
    const ScaleAndMinimum packed = q45_k_scale(p + 4, i / 32);
    out[i] = d * to_float(packed.scale) * to_float(four_bits(p + 16, i)) - dmin * to_float(packed.minimum);
  }
}

// | d f16: 2 | dmin f16: 2 | 8 scales, 8 minima: 12 | 256 fifth bits: 32 | 256 nibbles: 128 |
// As Q4_K, with five-bit quants.
void q5_k_block(Bytes p, float* out) {
  const float d = half_at(p);
  const float dmin = half_at(p + 2);
  for (int i = 0; i < 256; ++i) {
    const ScaleAndMinimum packed = q45_k_scale(p + 4, i / 32);
    const int quant = four_bits(p + 48, i) | one_bit(p + 16, i) << 4;
    out[i] = d * to_float(packed.scale) * to_float(quant) - dmin * to_float(packed.minimum);
  }
}

// | 256 low nibbles: 128 | 256 x 2 high bits: 64 | 16 scales int8: 16 | d f16: 2 |
// A scale for 16 values:                              value = d * scale * (quant - 32)
// Unlike in the other K types, the nibbles of 128 values share 64 bytes.
void q6_k_block(Bytes p, float* out) {
  const float d = half_at(p + 208);
  for (int i = 0; i < 256; ++i) {
    const float scale = d * to_float(static_cast<std::int8_t>(p[192 + i / 16]));
    const int low = p[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4) & 15;
    const int quant = low | two_bits(p + 128, i) << 4;
    out[i] = scale * to_float(quant - 32);
  }
}

// The sixteen levels that a nibble of IQ4_NL and IQ4_XS stands for: denser near zero, as weights are.
constexpr std::array<int, 16> kLevels{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// | scale f16: 2 | 32 nibbles: 16 |                          value = scale * level[nibble]
void iq4_nl_block(Bytes p, float* out) {
  const float scale = half_at(p);
  for (int i = 0; i < 32; ++i) out[i] = scale * to_float(kLevels[static_cast<std::size_t>(nibble_of_32(p + 2, i))]);
}

// | d f16: 2 | 8 x 2 high bits of scales: 2 | 8 low nibbles of scales: 4 | 8 x 32 nibbles: 128 |
// A 6-bit scale, biased by 32, for 32 values:                value = d * scale * level[nibble]
// The nibbles of each run of 32 are packed as in IQ4_NL.
void iq4_xs_block(Bytes p, float* out) {
  const float d = half_at(p);
  const int high_bits = u16_at(p + 2);
  for (int run = 0; run < 8; ++run) {
    const int low = p[4 + run / 2] >> (run % 2 * 4) & 15;
    const int high = high_bits >> (run * 2) & 3;
    const float scale = d * to_float((low | high << 4) - 32);
    for (int i = 0; i < 32; ++i) {
      const int nibble = nibble_of_32(p + 8 + run * 16, i);
      out[run * 32 + i] = scale * to_float(kLevels[static_cast<std::size_t>(nibble)]);
    }
  }
}

using BlockDecoder = void (*)(Bytes, float*);

BlockDecoder decoder_of(DType type) {
  switch (type) {
    case DType::f32:
      return f32_value;
    case DType::f16:
      return f16_value;
    case DType::bf16:
      return bf16_value;
    case DType::q4_0:
      return q4_0_block;
    case DType::q4_1:
      return q4_1_block;
    case DType::q5_0:
      return q5_0_block;
    case DType::q5_1:
      return q5_1_block;
    case DType::q8_0:
      return q8_0_block;
    case DType::q2_k:
      return q2_k_block;
    case DType::q3_k:
      return q3_k_block;
    case DType::q4_k:
      return q4_k_block;
    case DType::q5_k:
      return q5_k_block;
    case DType::q6_k:
      return q6_k_block;
    case DType::iq4_nl:
      return iq4_nl_block;
    case DType::iq4_xs:
      return iq4_xs_block;
  }
  QUIRE_ASSERT(false, "a DType without a decoder");
  return nullptr;
}

}  // namespace

void dequantize(DType type, const std::byte* source, float* out, std::int64_t count) {
  const DTypeInfo& layout = info(type);
  QUIRE_ASSERT(count >= 0 && count % layout.block_size == 0, "a part of a block cannot be decoded");
  const BlockDecoder decode = decoder_of(type);
  const auto* block = reinterpret_cast<Bytes>(source);
  for (std::int64_t done = 0; done < count; done += layout.block_size, block += layout.block_bytes) {
    decode(block, out + done);
  }
}

}  // namespace quire
