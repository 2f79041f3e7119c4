#include "kvant/metrics/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

std::vector<float> Logits(size_t count, uint64_t seed, double scale, double shift = 0) {
  const CounterRng rng(seed);
  std::vector<float> logits(count);
  for (size_t id = 0; id < count; ++id) logits[id] = static_cast<float>(shift + scale * rng.Normal(id));
  return logits;
}

TokenDivergence Stream(const std::vector<float>& reference, const std::vector<float>& arm, uint32_t target,
                       size_t tile) {
  DivergenceAccumulator accumulator(target);
  for (size_t begin = 0; begin < reference.size(); begin += tile) {
    const size_t count = std::min(tile, reference.size() - begin);
    accumulator.Add(std::span(reference).subspan(begin, count), std::span(arm).subspan(begin, count));
  }
  return accumulator.Finish();
}

// The definition in long double and two passes.
struct Exact {
  long double kl = 0;
  long double ref_nll;
  long double nll;
};

long double LogSumExp(const std::vector<float>& logits) {
  const long double max = *std::max_element(logits.begin(), logits.end());
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<long double>(logit) - max);
  return max + std::log(sum);
}

Exact TwoPass(const std::vector<float>& reference, const std::vector<float>& arm, uint32_t target) {
  const long double ref_lse = LogSumExp(reference);
  const long double arm_lse = LogSumExp(arm);
  Exact exact;
  for (size_t id = 0; id < reference.size(); ++id) {
    const long double ref_log = reference[id] - ref_lse;
    exact.kl += std::exp(ref_log) * (ref_log - (arm[id] - arm_lse));
  }
  exact.ref_nll = ref_lse - reference[target];
  exact.nll = arm_lse - arm[target];
  return exact;
}

// p = (1/2, 1/2), q = (3/4, 1/4): KL = ln 2 - ln(3) / 2.
TEST(Divergence, HandValues) {
  const std::vector<float> reference = {0.0f, 0.0f};
  const std::vector<float> arm = {std::log(3.0f), 0.0f};
  for (const size_t tile : {1, 2}) {
    const TokenDivergence result = Stream(reference, arm, 1, tile);
    EXPECT_TRUE(result.finite);
    EXPECT_NEAR(result.kl, std::log(2.0) - std::log(3.0) / 2, 1e-7);  // ln 3 as f32
    EXPECT_NEAR(result.ref_nll, std::log(2.0), 1e-15);
    EXPECT_NEAR(result.nll, std::log(4.0), 1e-7);
    EXPECT_EQ(result.ref_argmax, 0u);  // a tie goes to the lowest id
    EXPECT_EQ(result.argmax, 0u);
  }
}

TEST(Divergence, AgreesWithTwoPassesForEveryTile) {
  for (const double noise : {1e-6, 1e-3, 0.1, 3.0}) {
    const std::vector<float> reference = Logits(5000, 1, 4.0, -20.0);
    std::vector<float> arm = Logits(5000, 2, noise);
    for (size_t id = 0; id < arm.size(); ++id) arm[id] += reference[id];
    const Exact exact = TwoPass(reference, arm, 4321);
    const auto argmax = [](const std::vector<float>& logits) {
      return static_cast<uint32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    };
    for (const size_t tile : {1, 7, 512, 2048, 5000}) {
      const TokenDivergence result = Stream(reference, arm, 4321, tile);
      // 5000 terms, each rounded at about 1e-16 of terms whose weighted mean is at most 20.
      EXPECT_NEAR(result.kl, static_cast<double>(exact.kl), 1e-13) << noise << " " << tile;
      EXPECT_NEAR(result.ref_nll, static_cast<double>(exact.ref_nll), 1e-12);
      EXPECT_NEAR(result.nll, static_cast<double>(exact.nll), 1e-12);
      EXPECT_EQ(result.ref_argmax, argmax(reference));
      EXPECT_EQ(result.argmax, argmax(arm));
    }
  }
}

TEST(Divergence, OfIdenticalLogitsIsExactlyZero) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> logits = Logits(3000, seed, std::pow(10.0, static_cast<double>(seed % 7) - 3), 5.0);
    for (const size_t tile : {1, 100, 3000}) {
      const TokenDivergence result = Stream(logits, logits, 0, tile);
      EXPECT_EQ(result.kl, 0.0);
      EXPECT_FALSE(std::signbit(result.kl));
      EXPECT_EQ(result.nll, result.ref_nll);
      EXPECT_TRUE(result.agree());
    }
  }
}

TEST(Divergence, IsNeverNegativeNearZero) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> reference = Logits(2000, seed, 3.0);
    std::vector<float> arm = reference;
    arm[seed] = std::nextafter(arm[seed], 100.0f);
    EXPECT_GE(Stream(reference, arm, 0, 256).kl, 0.0);
    for (float& logit : arm) logit = logit + 1.0f;
    const double kl = Stream(reference, arm, 0, 256).kl;
    EXPECT_GE(kl, 0.0);
    EXPECT_LT(kl, 1e-12);  // each logit moved by half an ulp of 16 at most: squares of 1e-6
  }
}

// Tiles in rising order make every tile raise the maximum, by a lot and by a little.
TEST(Divergence, RescalesAcrossTiles) {
  std::vector<float> reference(64);
  std::vector<float> arm(64);
  for (size_t id = 0; id < 64; ++id) {
    reference[id] = static_cast<float>(id) * 0.5f;
    arm[63 - id] = static_cast<float>(id) * 0.25f;
  }
  const Exact exact = TwoPass(reference, arm, 63);
  for (const size_t tile : {1, 3, 64}) {
    const TokenDivergence result = Stream(reference, arm, 63, tile);
    EXPECT_NEAR(result.kl, static_cast<double>(exact.kl), 1e-13);
    EXPECT_NEAR(result.nll, static_cast<double>(exact.nll), 1e-13);
    EXPECT_EQ(result.ref_argmax, 63u);
    EXPECT_EQ(result.argmax, 0u);
    EXPECT_FALSE(result.agree());
  }
}

TEST(Divergence, HugeLogitsStayFinite) {
  const float max = std::numeric_limits<float>::max();
  const std::vector<float> reference = {-max, max, 0, max, -max};
  const std::vector<float> arm = {max, -max, max, 0, 1};
  for (const size_t tile : {1, 2, 5}) {
    const TokenDivergence result = Stream(reference, arm, 0, tile);
    EXPECT_TRUE(result.finite);
    // p is one half on ids 1 and 3; q is one half on ids 0 and 2: the mean of 2 max and max, to f64 rounding.
    EXPECT_NEAR(result.kl / max, 1.5, 1e-12) << tile;
    EXPECT_NEAR(result.nll, std::log(2.0), 1e-12);
    EXPECT_EQ(result.ref_argmax, 1u);
    EXPECT_EQ(result.argmax, 0u);
    EXPECT_EQ(Stream(reference, reference, 0, tile).kl, 0.0);
  }
}

TEST(Divergence, NonFiniteLogitsAreFlagged) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {inf, -inf, std::nanf("")}) {
    for (const size_t place : {0, 1, 149, 299}) {
      for (const bool in_arm : {false, true}) {
        std::vector<float> reference = Logits(300, 1, 1.0);
        std::vector<float> arm = Logits(300, 2, 1.0);
        (in_arm ? arm : reference)[place] = bad;
        const TokenDivergence result = Stream(reference, arm, 5, 100);
        EXPECT_FALSE(result.finite);
        EXPECT_FALSE(result.agree());
        EXPECT_TRUE(std::isnan(result.kl) && std::isnan(result.nll) && std::isnan(result.ref_nll));
      }
    }
  }
  const TokenDivergence nothing = DivergenceAccumulator(0).Finish();
  EXPECT_FALSE(nothing.finite);
  EXPECT_TRUE(std::isnan(nothing.kl));
}

TEST(Divergence, WithoutATargetThereIsNoLoss) {
  const std::vector<float> logits = Logits(100, 1, 1.0);
  EXPECT_TRUE(std::isnan(Stream(logits, logits, DivergenceAccumulator::kNoTarget, 10).nll));
  EXPECT_TRUE(std::isnan(Stream(logits, logits, 100, 10).nll));
  EXPECT_FALSE(std::isnan(Stream(logits, logits, 99, 10).nll));
}

}  // namespace
}  // namespace kvant
