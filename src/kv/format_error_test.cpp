#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kv/format_test_support.h"

namespace quire {
namespace {

using namespace testing_support;

// What a decoded value may be off by, given the largest magnitude and the spread of its group.
float allowed(KvFormat format, float x, float largest, float range) {
  constexpr float kHalfUlp = 0x1p-11f;     // of f16
  constexpr float kUp = 1.f + 0x1.01p-8f;  // by how much rounding may enlarge a bf16 scale
  constexpr float kTiny = 0x1p-40f;        // groups below are zeros
  constexpr float kSmallestHalf = 0x1p-24f;
  switch (format) {
    case KvFormat::f32:
      return 0.f;
    case KvFormat::f16:
      return std::fabs(x) * kHalfUlp + kSmallestHalf / 2;
    case KvFormat::bf16:
      return std::fabs(x) * 0x1p-8f + 1e-40f;
    case KvFormat::fp8:
      return std::fabs(x) / 16.f + largest / 448.f * kUp * 0x1p-10f + kTiny;
    case KvFormat::q8:
      return largest / 254.f * kUp + kTiny;
    case KvFormat::q5:
      return largest * 0.13f + kTiny;
    case KvFormat::q4:
      return largest * 0.2f + kTiny;
    case KvFormat::q2:
      return largest * 0.75f + kTiny;
    case KvFormat::k4:
    case KvFormat::k2: {
      const float steps = format == KvFormat::k4 ? 15.f : 3.f;
      const float zero_rounded = largest * kHalfUlp + kSmallestHalf / 2;
      const float scale = (range + zero_rounded) / steps * (1.f + 2 * kHalfUlp) + kSmallestHalf;
      return scale / 2 * (1.f + 1e-5f) + zero_rounded;
    }
  }
  return 0.f;
}

TEST(KvFormatError, WithinBoundsOnAllData) {
  for (const KvFormatInfo& format : kv_formats()) {
    for (const KvOrder order : kOrders) {
      for (const std::int64_t dim : kDims) {
        const auto groups = groups_of(format.format, order, dim);
        for (const Data kind : kAllData) {
          SCOPED_TRACE(describe(format.format, order, dim) + " data " + std::to_string(static_cast<int>(kind)));
          const auto rows = make_rows(kind, dim, 7);
          const auto result = round_trip(format.format, order, rows);
          for (const auto& group : groups) {
            float least = rows[group[0]], most = least, largest = 0;
            for (const std::size_t i : group) {
              least = std::min(least, rows[i]);
              most = std::max(most, rows[i]);
              largest = std::max(largest, std::fabs(rows[i]));
            }
            for (const std::size_t i : group) {
              ASSERT_LE(std::fabs(rows[i] - result[i]), allowed(format.format, rows[i], largest, most - least))
                  << rows[i] << " came back as " << result[i];
            }
          }
        }
      }
    }
  }
}

TEST(KvFormatError, ZerosAreZerosAndConstantsNearlyConstant) {
  for (const KvFormatInfo& format : kv_formats()) {
    for (const KvOrder order : kOrders) {
      for (const std::int64_t dim : kDims) {
        SCOPED_TRACE(describe(format.format, order, dim));
        for (const float x : round_trip(format.format, order, make_rows(Data::zero, dim, 0))) ASSERT_EQ(x, 0.f);
        // A scale of 8 bits: half a unit of its last place.
        for (const float x : round_trip(format.format, order, make_rows(Data::constant, dim, 0))) {
          ASSERT_NEAR(x, -3.7f, 3.7f * 0x1p-8f);
        }
      }
    }
  }
}

double relative_error(KvFormat format, KvOrder order, const std::vector<float>& rows) {
  const auto result = round_trip(format, order, rows);
  double error = 0, total = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    error += (rows[i] - result[i]) * (rows[i] - result[i]);
    total += rows[i] * rows[i];
  }
  return error / total;
}

// Mean squared error over variance. For the codebooks a quantiser fixed for the whole Gaussian would
// leave 0.1175, 0.0095 and 0.0025; a scale fitted to each 32 values leaves less.
TEST(KvFormatError, OnGaussianDataAsMeasured) {
  const auto rows = gaussian(32 * 8192, 11);
  const struct {
    KvFormat format;
    double error;
  } table[] = {{KvFormat::fp8, 0.00063}, {KvFormat::q8, 0.0000362}, {KvFormat::q5, 0.00140}, {KvFormat::q4, 0.00726},
               {KvFormat::q2, 0.1055},   {KvFormat::k4, 0.00610},   {KvFormat::k2, 0.1545}};
  for (const auto& row : table) {
    for (const KvOrder order : kOrders) {
      EXPECT_NEAR(relative_error(row.format, order, rows), row.error, 0.02 * row.error)
          << info(row.format).name << (order == KvOrder::lanes ? " lanes" : " rows");
    }
  }
}

// The encoder tries a few scales; all of them, 1 % apart, find hardly better.
TEST(KvFormatError, FittedScalesAreNearlyTheBest) {
  const struct {
    KvFormat format;
    std::vector<float> magnitudes;
    double margin;
  } table[] = {
      {KvFormat::q2, {38, 127}, 0.01},
      {KvFormat::q4, {8, 24, 40, 56, 72, 88, 104, 120}, 0.02},
      {KvFormat::q5, {3, 8, 13, 18, 24, 29, 35, 41, 47, 54, 61, 70, 79, 90, 105, 127}, 0.04},
  };
  const auto rows = gaussian(32 * 512, 12);
  for (const auto& row : table) {
    double best_total = 0, total = 0;
    for (std::size_t start = 0; start < rows.size(); start += 32) {
      double best = INFINITY;
      for (int step = 0; step < 280; ++step) {
        const auto scale = static_cast<float>(0.005 * std::pow(1.01, step));  // 0.005 to 0.08
        double error = 0;
        for (std::size_t i = start; i < start + 32; ++i) {
          double nearest = INFINITY;
          for (const float m : row.magnitudes) {
            nearest = std::min(nearest, std::pow(std::fabs(rows[i]) - static_cast<double>(scale * m), 2));
          }
          error += nearest;
        }
        best = std::min(best, error);
      }
      best_total += best;
    }
    for (const float x : rows) total += x * x;
    EXPECT_LT(relative_error(row.format, KvOrder::rows, rows), best_total / total * (1 + row.margin))
        << info(row.format).name;
  }
}

TEST(KvFormatError, BothOrdersHoldTheSameNumbers) {
  for (const KvFormatInfo& format : kv_formats()) {
    if (format.format == KvFormat::k4 || format.format == KvFormat::k2) continue;
    for (const std::int64_t dim : kDims) {
      const auto rows = gaussian(32 * dim, 13);
      EXPECT_EQ(round_trip(format.format, KvOrder::lanes, rows), round_trip(format.format, KvOrder::rows, rows))
          << format.name << " " << dim;
    }
  }
}

// Not promised, though nearly always so, where a group is nearly constant, which several scales fit
// (shifted), or where a scale in f16 is subnormal (small).
TEST(KvFormatError, EncodingWhatWasDecodedChangesNothing) {
  for (const KvFormatInfo& format : kv_formats()) {
    for (const KvOrder order : kOrders) {
      for (const std::int64_t dim : kDims) {
        for (const Data kind : kAllData) {
          if (kind == Data::shifted || kind == Data::small) continue;
          SCOPED_TRACE(describe(format.format, order, dim) + " data " + std::to_string(static_cast<int>(kind)));
          // As an open page holds them.
          const auto rows = round_trip(open_format(format.format), order, make_rows(kind, dim, 14));
          const auto once = round_trip(format.format, order, rows);
          ASSERT_EQ(round_trip(format.format, order, once), once);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
