// What every codec promises whatever its rule: independence of units, slices, determinism, zeros, quality on Gaussian
// data, errors by decade of magnitude.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/each_target_test.h"
#include "kvant/base/half.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/test_rows.h"

namespace kvant {
namespace {

constexpr size_t kHeadDims[] = {32, 40, 64, 80, 128, 192, 256, 320, 512};

CodecSpec Spec(std::string_view text) { return ParseCodec(text).value(); }

std::vector<std::byte> Encoded(const CodecSpec& spec, const std::vector<float>& x, EncodeStats* stats = nullptr) {
  std::vector<std::byte> bytes(UnitBytes(spec, x.size()), std::byte{0xff});
  EncodeUnit(spec, x.data(), x.size(), bytes.data(), stats);
  return bytes;
}

std::vector<float> Decoded(const CodecSpec& spec, const std::vector<std::byte>& bytes, size_t elems) {
  std::vector<float> out(elems, std::nanf(""));
  DecodeUnits(spec, {bytes.data(), bytes.size(), 1, elems, 0, elems}, out.data(), elems);
  return out;
}

std::vector<float> RoundTrip(const CodecSpec& spec, const std::vector<float>& x, EncodeStats* stats = nullptr) {
  return Decoded(spec, Encoded(spec, x, stats), x.size());
}

using EveryTarget = EachTargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget, testing::ValuesIn(SupportedTargets()), TargetOfTest);

// Any multiple-of-8 part of a row, from rows at odd strides, equals that part of the whole; nothing else is written.
TEST_P(EveryTarget, SlicesEqualTheWhole) {
  const float untouched = -12345.0f;
  for (const size_t elems : {32, 64, 80, 96, 256}) {
    for (const CodecSpec& spec : AllCodecs()) {
      if (!Supports(spec, 1, elems)) continue;
      constexpr size_t kUnits = 3;
      const size_t unit_bytes = UnitBytes(spec, elems);
      const size_t stride = unit_bytes + 3;
      // Ends with the last byte of the last unit, starts at an odd address.
      const size_t total = 1 + (kUnits - 1) * stride + unit_bytes;
      const std::unique_ptr<std::byte[]> bytes(new std::byte[total]);
      std::memset(bytes.get(), 0xff, total);
      std::vector<float> whole;
      for (size_t unit = 0; unit < kUnits; ++unit) {
        const std::vector<float> x = test::GaussianRow(elems, 5 + unit, 3.0f);
        std::byte* const at = bytes.get() + 1 + unit * stride;
        EncodeUnit(spec, x.data(), elems, at, nullptr);
        const std::vector<std::byte> alone = Encoded(spec, x);
        ASSERT_EQ(std::memcmp(alone.data(), at, unit_bytes), 0) << ToText(spec);
        const std::vector<float> decoded = Decoded(spec, alone, elems);
        whole.insert(whole.end(), decoded.begin(), decoded.end());
      }
      for (size_t begin = 0; begin < elems; begin += 8) {
        for (size_t count = 8; begin + count <= elems; count += 8) {
          if (elems == 256 && (begin % 24 != 0 || count % 40 != 0)) continue;
          const size_t out_stride = count + 5;
          std::vector<float> out(kUnits * out_stride, untouched);
          DecodeUnits(spec, {bytes.get() + 1, stride, kUnits, elems, begin, count}, out.data(), out_stride);
          for (size_t unit = 0; unit < kUnits; ++unit) {
            for (size_t index = 0; index < out_stride; ++index) {
              const float expected = index < count ? whole[unit * elems + begin + index] : untouched;
              ASSERT_EQ(out[unit * out_stride + index], expected)
                  << ToText(spec) << " " << elems << " [" << begin << ", +" << count << ") unit " << unit;
            }
          }
        }
      }
    }
  }
}

TEST_P(EveryTarget, EncodingWritesExactlyTheUnitAndAlwaysTheSame) {
  for (const size_t head_dim : kHeadDims) {
    const std::vector<float> x = test::GaussianRow(head_dim, 8);
    for (const CodecSpec& spec : AllCodecs()) {
      if (!Supports(spec, 1, head_dim)) continue;
      const size_t bytes = UnitBytes(spec, head_dim);
      std::vector<std::byte> first(bytes + 1, std::byte{0x00});
      std::vector<std::byte> second(bytes + 1, std::byte{0xff});
      EncodeUnit(spec, x.data(), head_dim, first.data(), nullptr);
      EncodeUnit(spec, x.data(), head_dim, second.data(), nullptr);
      EXPECT_EQ(std::memcmp(first.data(), second.data(), bytes), 0) << ToText(spec) << " " << head_dim;
      EXPECT_EQ(first[bytes], std::byte{0x00});
      EXPECT_EQ(second[bytes], std::byte{0xff});
    }
  }
}

TEST_P(EveryTarget, ZerosAndConstantsStay) {
  for (const CodecSpec& spec : AllCodecs()) {
    for (const float zero : {0.0f, -0.0f}) {
      for (const float x : RoundTrip(spec, std::vector<float>(128, zero))) EXPECT_EQ(x, 0.0f) << ToText(spec);
    }
    if (spec.family != CodecFamily::kAffine) continue;
    // A constant group is its minimum, exact up to half precision (cases 3.2, 12).
    for (const float constant : {1.0f, -0.1f, 3.14159f, 65504.0f, -6e-8f, 1e-9f}) {
      for (const float x : RoundTrip(spec, std::vector<float>(128, constant))) {
        EXPECT_EQ(x, RoundToHalf(constant)) << ToText(spec);
      }
    }
  }
}

// A power of two changes exponents only, so codes stay and decoded values scale exactly, while halves stay normal.
TEST_P(EveryTarget, ScalingByAPowerOfTwoCommutes) {
  for (const CodecSpec& spec : AllCodecs()) {
    if (spec.family == CodecFamily::kDict3) continue;  // its scales are a table
    const std::vector<float> x = test::GaussianRow(128, 12);
    std::vector<float> scaled = x;
    for (float& value : scaled) value *= 8.0f;
    const std::vector<float> decoded = RoundTrip(spec, x);
    const std::vector<float> scaled_decoded = RoundTrip(spec, scaled);
    for (size_t index = 0; index < x.size(); ++index) {
      EXPECT_EQ(scaled_decoded[index], 8.0f * decoded[index]) << ToText(spec);
    }
  }
}

// Every code of every width is reached and means what the rule says.
TEST_P(EveryTarget, EveryAffineAndAbsmaxCodeDecodes) {
  for (int bits = 1; bits <= 8; ++bits) {
    const int top = (1 << bits) - 1;
    std::vector<float> x(256 + 8);
    for (size_t index = 0; index < x.size(); ++index)
      x[index] = static_cast<float>(static_cast<int>(index) % (top + 1));
    EXPECT_EQ(RoundTrip({CodecFamily::kAffine, bits, kGroupHead}, x), x) << bits;
    // The element of largest magnitude is -2^(bits-1): the step is 1.
    for (float& value : x) value -= static_cast<float>(1 << (bits - 1));
    EXPECT_EQ(RoundTrip({CodecFamily::kAbsmax, bits, kGroupHead}, x), x) << bits;
  }
}

// Normalised mean squared error on N(0,1) of 600 x 256 values against a Monte-Carlo computation in Python, +-5 %.
TEST(CodecQuality, MatchesTheMeasuredTable) {
  const struct {
    const char* text;
    double nmse;
  } rows[] = {
      {"affine2/g32", .155},
      {"affine2/g64", .204},
      {"affine2/g128", .250},
      {"affine2/head", .298},
      {"affine3/g32", .0282},
      {"affine3/g64", .0365},
      {"affine3/g128", .0455},
      {"affine3/head", .0531},
      {"affine4/g32", .0061},
      {"affine4/g64", .0080},
      {"affine4/g128", .0098},
      {"affine4/head", .0119},
      {"affine6/g32", .00035},
      {"affine6/head", .00066},
      {"absmax2/g32/sym", .432},
      {"absmax2/g64/sym", .517},
      {"absmax3/g32/sym", .0514},
      {"absmax3/g64/sym", .0632},
      {"absmax3/head/sym", .0867},
      {"absmax4/g32/sym", .0094},
      {"absmax4/g64/sym", .0116},
      {"absmax4/head/sym", .0158},
      {"absmax6/g32/sym", .00047},
      {"absmax2/g32", .131},
      {"absmax2/g64", .155},
      {"absmax2/head", .208},
      {"absmax3/g32", .0305},
      {"absmax3/g64", .0370},
      {"absmax3/head", .0499},
      {"absmax4/g32", .0074},
      {"absmax4/g64", .0090},
      {"absmax4/head", .0124},
      {"absmax6/g32", .00045},
      {"absmax6/head", .00076},
      {"q4_0", .0074},
      {"q4_1", .0061},
      {"dict3", .0260},
  };
  for (const auto& row : rows) {
    const CodecSpec spec = Spec(row.text);
    double error = 0;
    double power = 0;
    for (uint64_t sample = 0; sample < 600; ++sample) {
      const std::vector<float> x = test::GaussianRow(256, 1000 + sample);
      const std::vector<float> decoded = RoundTrip(spec, x);
      for (size_t index = 0; index < x.size(); ++index) {
        error += std::pow(static_cast<double>(decoded[index]) - x[index], 2);
        power += std::pow(static_cast<double>(x[index]), 2);
      }
    }
    EXPECT_GT(error / power, 0.95 * row.nmse) << row.text;
    EXPECT_LT(error / power, 1.05 * row.nmse) << row.text;
  }
}

// Gaussian rows over the decades that halves cover (cases 3.2, 16): error relative to the largest magnitude. Bounds are
// half a step plus half an ulp of f16 in scale and minimum; small groups lose the precision of subnormal halves, which
// is why bounds grow by 2^-25 per step.
TEST(CodecQuality, ErrorIsBoundedInEveryDecade) {
  for (const CodecSpec& spec : AllCodecs()) {
    if (spec.family != CodecFamily::kAffine) continue;
    for (int decade = -8; decade <= 4; ++decade) {
      const std::vector<float> x = test::GaussianRow(128, 77, std::pow(10.0f, static_cast<float>(decade)));
      const std::vector<float> decoded = RoundTrip(spec, x);
      double largest = 0;
      for (const float value : x) largest = std::max(largest, std::fabs(static_cast<double>(value)));
      const double steps = (1 << spec.bits) - 1;
      // |max - min| <= 2 * largest; the scale and the minimum are off by 2^-11 relatively or 2^-25 absolutely.
      const double bound = largest / steps * 1.001 + 4 * largest * 0x1p-11 + (steps + 1) * 0x1p-25;
      for (size_t index = 0; index < x.size(); ++index) {
        if (largest > 65504) continue;
        ASSERT_LE(std::fabs(static_cast<double>(decoded[index]) - x[index]), bound) << ToText(spec) << " 1e" << decade;
      }
    }
  }
}

TEST(CodecQuality, Dict3StoresItsWholeRange) {
  const CodecSpec dict3{CodecFamily::kDict3};
  for (int decade = -3; decade <= 4; ++decade) {
    const std::vector<float> x = test::GaussianRow(256, 78, std::pow(10.0f, static_cast<float>(decade)));
    const std::vector<float> decoded = RoundTrip(dict3, x);
    double error = 0;
    double power = 0;
    for (size_t index = 0; index < x.size(); ++index) {
      error += std::pow(static_cast<double>(decoded[index]) - x[index], 2);
      power += std::pow(static_cast<double>(x[index]), 2);
    }
    // Quarter-octave scales from 2^-6 to 2^6, 1.25 octaves outside.
    EXPECT_LT(error / power, decade >= -1 && decade <= 1 ? 0.031 : 0.055) << decade;
    EXPECT_GT(error / power, 0.020) << decade;
  }
}

TEST(EncodeStatsTest, CountsWhatWasChanged) {
  std::vector<float> x = test::GaussianRow(64, 1);
  for (const CodecSpec& spec : AllCodecs()) {
    EncodeStats stats;
    RoundTrip(spec, x, &stats);
    EXPECT_EQ(stats, (EncodeStats{64, 0, 0})) << ToText(spec);
  }
  x[3] = std::nanf("");
  x[40] = -std::numeric_limits<float>::infinity();
  for (const CodecSpec& spec : AllCodecs()) {
    EncodeStats stats;
    RoundTrip(spec, x, &stats);
    EXPECT_EQ(stats.non_finite, 2u) << ToText(spec);
    EXPECT_EQ(stats.values, 64u);
  }
  EXPECT_EQ(RoundTrip(Spec("f16"), x)[3], 0.0f);
  EXPECT_EQ(RoundTrip(Spec("f16"), x)[40], -65504.0f);
  EXPECT_EQ(RoundTrip(Spec("bf16"), x)[40], -0x1.fep+127f);
  EXPECT_TRUE(std::isnan(RoundTrip(Spec("f32"), x)[3]));
}

TEST(EncodeStatsTest, CountsWhatIsBeyondTheFormat) {
  // One value of 70000 among -65504: 63 values that halves hold, one that f16 does not.
  std::vector<float> x(64, -65504.0f);
  x[3] = 70000.0f;
  const struct {
    const char* text;
    uint64_t saturated;
    float decoded;  // of x[3]
    float tolerance;
  } rows[] = {
      {"f32", 0, 70000.0f, 0.0f},
      {"f16", 1, 65504.0f, 0.0f},
      {"bf16", 0, 70000.0f, 256.0f},  // half an ulp at 2^16
      {"q4_0", 0, 70000.0f, 32.0f},   // its scale, -8750, is a half: half an ulp there is 4, times 8
      {"absmax4/head", 0, 70000.0f, 32.0f},
      {"affine4/head", 0, 70000.0f, 60.0f},     // the scale, 9033.6, is off by up to 4, times 15
      {"affine1/head", 1, 0.0f, 0.0f},          // one step of 135504 is clamped to 65504
      {"dict3", 64, 59296.0f, 1.0f},            // 2.151946 * 2^14.75 is its largest
      {"absmax1/head", 64, 65504.0f, 0.0f},     // the clamped grid is {0, 65504}
      {"absmax2/head/sym", 1, 65504.0f, 0.0f},  // the clamped grid is {-65504, 0, 65504}
  };
  for (const auto& row : rows) {
    EncodeStats stats;
    const std::vector<float> decoded = RoundTrip(Spec(row.text), x, &stats);
    EXPECT_EQ(stats.saturated, row.saturated) << row.text;
    EXPECT_NEAR(decoded[3], row.decoded, row.tolerance) << row.text;
  }
  EncodeStats stats;
  RoundTrip(Spec("q8_0"), std::vector<float>(32, 1e9f), &stats);
  EXPECT_EQ(stats, (EncodeStats{32, 32, 0}));
  RoundTrip(Spec("q8_0"), std::vector<float>(32, 1.0f), &stats);
  EXPECT_EQ(stats, (EncodeStats{64, 32, 0}));  // counts add up
}

}  // namespace
}  // namespace kvant
