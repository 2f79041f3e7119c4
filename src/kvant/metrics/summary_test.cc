#include "kvant/metrics/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

std::vector<double> Shuffled(std::vector<double> values, uint64_t seed) {
  const CounterRng rng(seed);
  for (size_t left = values.size(); left > 1; --left) std::swap(values[left - 1], values[rng.Below(left, left)]);
  return values;
}

TEST(Sum, KeepsWhatPlainAdditionLoses) {
  EXPECT_EQ(Sum(std::vector<double>{1.0, 1e100, 1.0, -1e100}), 2.0);  // plain and Kahan give 0
  std::vector<double> tenths(1000000, 0.1);
  EXPECT_EQ(Sum(tenths), 100000.0);  // the double nearest to 1e6 * double(0.1) = 100000.00000000000555
  EXPECT_EQ(Sum({}), 0.0);
  EXPECT_EQ(Sum(std::vector<double>{1.0, kInf, 2.0}), kInf);
  EXPECT_TRUE(std::isnan(Sum(std::vector<double>{kInf, -kInf})));
}

TEST(Mean, OfNothingIsNotANumber) {
  EXPECT_EQ(Mean(std::vector<double>{1, 2, 6}), 3.0);
  EXPECT_TRUE(std::isnan(Mean({})));
}

// Case 44: an index that is off by one shows on 0..100, where every percentile is its own rank.
TEST(Percentile, OfZeroToHundredIsTheRank) {
  std::vector<double> ranks(101);
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank] = static_cast<double>(rank);
  ranks = Shuffled(ranks, 44);
  for (int percent = 0; percent <= 100; ++percent) EXPECT_NEAR(Percentile(ranks, percent), percent, 1e-12);
  EXPECT_NEAR(Percentile(ranks, 99.9), 99.9, 1e-12);
}

// By hand: 5 % of 4 gaps is 0.2 of the first (15 + 0.2 * 5), 30 % is 1.2 (20 + 0.2 * 15), and so on.
TEST(Percentile, InterpolatesBetweenRanks) {
  const std::vector<double> values = {40, 15, 50, 20, 35};
  EXPECT_EQ(Percentile(values, 0), 15);
  EXPECT_NEAR(Percentile(values, 5), 16, 1e-12);
  EXPECT_NEAR(Percentile(values, 30), 23, 1e-12);
  EXPECT_NEAR(Percentile(values, 40), 29, 1e-12);
  EXPECT_NEAR(Percentile(values, 99), 49.6, 1e-12);
  EXPECT_EQ(Percentile(values, 100), 50);
}

TEST(Percentile, EdgesAreDefined) {
  EXPECT_TRUE(std::isnan(Percentile({}, 50)));
  EXPECT_TRUE(std::isnan(Percentile(std::vector<double>{1, kNan, 3}, 50)));
  EXPECT_TRUE(std::isnan(Percentile(std::vector<double>{1, 2}, kNan)));
  EXPECT_EQ(Percentile(std::vector<double>{7}, 99), 7);
  EXPECT_EQ(Percentile(std::vector<double>{1, 2}, -5), 1);
  EXPECT_EQ(Percentile(std::vector<double>{1, 2}, 500), 2);
  EXPECT_EQ(Percentile(std::vector<double>{1, kInf, kInf}, 75), kInf);
}

// Binomial tails by hand: 2 * C(6,0) / 64, 2 * (1 + 6) / 64, 2 * (1 + 18 + 153 + 816) / 2^18.
TEST(SignTest, MatchesTheBinomialTails) {
  EXPECT_NEAR(SignTestPValue(6, 0), 2.0 / 64, 1e-15);
  EXPECT_NEAR(SignTestPValue(1, 5), 14.0 / 64, 1e-15);
  EXPECT_NEAR(SignTestPValue(15, 3), 2.0 * 988 / 262144, 1e-15);
  EXPECT_EQ(SignTestPValue(0, 0), 1.0);
  EXPECT_EQ(SignTestPValue(3, 3), 1.0);
  // Far below the smallest double: the normal approximation at 20 standard deviations is 5.5e-89.
  EXPECT_LT(SignTestPValue(6000, 4000), 1e-80);
  EXPECT_GT(SignTestPValue(6000, 4000), 1e-100);
}

std::vector<double> Normals(size_t count, uint64_t seed, double mean) {
  const CounterRng rng(seed);
  std::vector<double> values(count);
  for (size_t index = 0; index < count; ++index) values[index] = mean + rng.Normal(index);
  return values;
}

// Independent draws have a known answer: mean +- 1.96 sigma / sqrt(n). 100 blocks estimate sigma to about 7 %, and
// 2000 resamples add about 3 %; a quarter is more than three of those.
TEST(Bootstrap, IntervalOfIndependentDrawsHasTheKnownWidth) {
  const std::vector<double> values = Normals(6400, 5, 3.0);
  const std::span<const double> run(values);
  const Interval interval = BootstrapMean(std::span(&run, 1), {});
  const double expected = 2 * 1.959964 / std::sqrt(6400.0);
  EXPECT_NEAR(interval.high - interval.low, expected, expected / 4);
  EXPECT_LT(interval.low, Mean(values));
  EXPECT_GT(interval.high, Mean(values));
}

// Values that repeat within a block carry only one draw per block: resampling tokens would be eight times too narrow.
TEST(Bootstrap, BlocksKeepTheDependenceOfNeighbours) {
  const std::vector<double> levels = Normals(100, 6, 0.0);
  std::vector<double> values;
  for (const double level : levels) values.insert(values.end(), 64, level);
  const std::span<const double> run(values);
  const Interval interval = BootstrapMean(std::span(&run, 1), {});
  const double expected = 2 * 1.959964 / std::sqrt(100.0);
  EXPECT_NEAR(interval.high - interval.low, expected, expected / 4);
}

TEST(Bootstrap, IsSeededAndPaired) {
  const std::vector<double> base = Normals(512, 7, 10.0);
  std::vector<double> shifted = base;
  for (double& value : shifted) value += 0.25;
  const std::vector<std::span<const double>> a = {std::span(shifted).first(256), std::span(shifted).last(256)};
  const std::vector<std::span<const double>> b = {std::span(base).first(256), std::span(base).last(256)};
  const Interval difference = BootstrapMeanDifference(a, b, {});
  EXPECT_NEAR(difference.low, 0.25, 1e-12);
  EXPECT_NEAR(difference.high, 0.25, 1e-12);

  const Interval once = BootstrapMean(a, {.seed = 3});
  const Interval again = BootstrapMean(a, {.seed = 3});
  const Interval other = BootstrapMean(a, {.seed = 4});
  EXPECT_EQ(once.low, again.low);
  EXPECT_EQ(once.high, again.high);
  EXPECT_NE(once.low, other.low);
}

TEST(Bootstrap, WithoutTwoBlocksThereIsNoInterval) {
  const std::vector<double> values = Normals(64, 8, 0.0);
  const std::span<const double> run(values);
  EXPECT_TRUE(std::isnan(BootstrapMean(std::span(&run, 1), {}).low));
  EXPECT_TRUE(std::isnan(BootstrapMean({}, {}).high));
  std::vector<double> broken = Normals(256, 8, 0.0);
  broken[100] = kNan;
  const std::span<const double> broken_run(broken);
  EXPECT_TRUE(std::isnan(BootstrapMean(std::span(&broken_run, 1), {}).low));
  // A short last block counts with its own length: three tokens of 1 and one of 5 mean between 1 and 5, not beyond.
  const std::vector<double> uneven = {1, 1, 1, 5};
  const std::span<const double> uneven_run(uneven);
  const Interval interval = BootstrapMean(std::span(&uneven_run, 1), {.block_tokens = 3});
  EXPECT_EQ(interval.low, 1);
  EXPECT_EQ(interval.high, 5);
}

}  // namespace
}  // namespace kvant
