// Transforms against their definitions in double, on every SIMD target.
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/each_target_test.h"
#include "kvant/codec/test_rows.h"
#include "kvant/codec/transform.h"

namespace kvant {
namespace {

using Kinds = std::vector<TransformKind>;

std::vector<double> HadamardByDefinition(const std::vector<float>& x, size_t block) {
  std::vector<double> y(x.size(), 0.0);
  for (size_t begin = 0; begin < x.size(); begin += block) {
    for (size_t row = 0; row < block; ++row) {
      for (size_t column = 0; column < block; ++column) {
        const double sign = std::popcount(row & column) % 2 == 0 ? 1.0 : -1.0;
        y[begin + row] += sign * x[begin + column];
      }
      y[begin + row] /= std::sqrt(static_cast<double>(block));
    }
  }
  return y;
}

// log2(n) additions, each off by half an ulp of a partial sum that is at most sqrt(n) times the norm of x.
double Tolerance(const std::vector<float>& x, size_t block) {
  double norm = 0;
  for (const float value : x) norm += static_cast<double>(value) * value;
  return (std::log2(static_cast<double>(block)) + 2) * 0x1p-24 * std::sqrt(norm);
}

using EveryTarget = EachTargetTest;
INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget, testing::ValuesIn(SupportedTargets()), TargetOfTest);

TEST_P(EveryTarget, HadamardIsItsDefinition) {
  for (size_t size = 8; size <= 512; size *= 2) {
    const std::vector<float> x = test::GaussianRow(size, size, 3.0f);
    std::vector<float> y = x;
    ApplyTransforms({TransformKind::kHadamard}, y.data(), 1, size, size);
    const std::vector<double> expected = HadamardByDefinition(x, size);
    for (size_t index = 0; index < size; ++index) ASSERT_NEAR(y[index], expected[index], Tolerance(x, size)) << size;
  }
  for (const size_t size : {64, 128, 192, 320, 512}) {
    const std::vector<float> x = test::GaussianRow(size, size);
    std::vector<float> y = x;
    ApplyTransforms({TransformKind::kHadamard64}, y.data(), 1, size, size);
    const std::vector<double> expected = HadamardByDefinition(x, 64);
    for (size_t index = 0; index < size; ++index) ASSERT_NEAR(y[index], expected[index], Tolerance(x, 64)) << size;
  }
}

// One unit vector per channel: all entries of H, exact because a single product rounds.
TEST_P(EveryTarget, HadamardOfUnitVectorsIsExact) {
  for (size_t size = 8; size <= 256; size *= 2) {
    const float entry = static_cast<float>(1.0 / std::sqrt(static_cast<double>(size)));
    for (size_t channel = 0; channel < size; ++channel) {
      std::vector<float> x(size, 0.0f);
      x[channel] = 1.0f;
      ApplyTransforms({TransformKind::kHadamard}, x.data(), 1, size, size);
      for (size_t row = 0; row < size; ++row) {
        ASSERT_EQ(x[row], std::popcount(row & channel) % 2 == 0 ? entry : -entry) << size;
      }
    }
  }
}

TEST_P(EveryTarget, InvertUndoesApplyAndInnerProductsStay) {
  for (const Kinds& kinds : {Kinds{TransformKind::kHadamard}, Kinds{TransformKind::kHadamard64},
                             Kinds{TransformKind::kInterleave, TransformKind::kHadamard},
                             Kinds{TransformKind::kHadamard, TransformKind::kHadamard64}}) {
    constexpr size_t kSize = 128;
    const std::vector<float> q = test::GaussianRow(kSize, 1);
    const std::vector<float> k = test::GaussianRow(kSize, 2);
    std::vector<float> rotated_q = q;
    std::vector<float> rotated_k = k;
    ApplyTransforms(kinds, rotated_q.data(), 1, kSize, kSize);
    ApplyTransforms(kinds, rotated_k.data(), 1, kSize, kSize);
    double score = 0;
    double rotated_score = 0;
    for (size_t index = 0; index < kSize; ++index) {
      score += static_cast<double>(q[index]) * k[index];
      rotated_score += static_cast<double>(rotated_q[index]) * rotated_k[index];
    }
    EXPECT_NEAR(rotated_score, score, 40 * Tolerance(q, kSize));
    EXPECT_NE(rotated_k, k);
    InvertTransforms(kinds, rotated_k.data(), 1, kSize, kSize);
    for (size_t index = 0; index < kSize; ++index) EXPECT_NEAR(rotated_k[index], k[index], 4 * Tolerance(k, kSize));
  }
}

TEST_P(EveryTarget, InterleaveIsAPermutation) {
  for (const size_t size : {32, 40, 80, 512}) {
    std::vector<float> x(size);
    for (size_t index = 0; index < size; ++index) x[index] = static_cast<float>(index);
    const std::vector<float> original = x;
    ApplyTransforms({TransformKind::kInterleave}, x.data(), 1, size, size);
    for (size_t pair = 0; pair < size / 2; ++pair) {
      EXPECT_EQ(x[2 * pair], original[pair]);
      EXPECT_EQ(x[2 * pair + 1], original[pair + size / 2]);
    }
    InvertTransforms({TransformKind::kInterleave}, x.data(), 1, size, size);
    EXPECT_EQ(x, original);
  }
}

// Rows are independent and what lies between them is not touched, even if it is NaN.
TEST_P(EveryTarget, RowsStandAlone) {
  constexpr size_t kSize = 64;
  constexpr size_t kStride = kSize + 3;
  std::vector<float> x(5 * kStride, std::nanf(""));
  for (size_t row = 0; row < 5; ++row) {
    const std::vector<float> values = test::GaussianRow(kSize, row);
    std::copy(values.begin(), values.end(), x.begin() + static_cast<std::ptrdiff_t>(row * kStride));
  }
  ApplyTransforms({TransformKind::kHadamard, TransformKind::kInterleave}, x.data(), 5, kSize, kStride);
  for (size_t row = 0; row < 5; ++row) {
    std::vector<float> alone = test::GaussianRow(kSize, row);
    ApplyTransforms({TransformKind::kHadamard, TransformKind::kInterleave}, alone.data(), 1, kSize, kSize);
    EXPECT_EQ(std::memcmp(alone.data(), x.data() + row * kStride, kSize * sizeof(float)), 0);
    for (size_t gap = kSize; gap < kStride; ++gap) EXPECT_TRUE(std::isnan(x[row * kStride + gap]));
  }
}

TEST(Transforms, GiveTheSameBitsOnEveryTarget) {
  for (size_t size = 8; size <= 512; size *= 2) {
    std::vector<std::vector<float>> results;
    for (const std::string& target : SupportedTargets()) {
      ASSERT_TRUE(ForceTarget(target).has_value());
      ASSERT_EQ(ActiveTarget(), target);
      results.push_back(test::GaussianRow(size, 9, 1.7f));
      ApplyTransforms({TransformKind::kHadamard}, results.back().data(), 1, size, size);
    }
    ASSERT_TRUE(ForceTarget("").has_value());
    for (const std::vector<float>& result : results) {
      EXPECT_EQ(std::memcmp(result.data(), results[0].data(), size * sizeof(float)), 0) << size;
    }
  }
}

}  // namespace
}  // namespace kvant
