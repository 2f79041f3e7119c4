#include "kvant/model/ops.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/rng.h"

namespace kvant {
namespace {

TEST(RmsNorm, MatchesItsDefinition) {
  ThreadPool pool(2);
  const CounterRng rng(4);
  for (const size_t width : {1, 15, 16, 33, 576}) {
    std::vector<float> x(20 * width);
    std::vector<float> weight(width);
    for (size_t index = 0; index < x.size(); ++index) x[index] = static_cast<float>(rng.Normal(index));
    for (size_t index = 0; index < width; ++index) weight[index] = static_cast<float>(rng.Normal(index + 100000));
    std::vector<float> out(20 * width);
    RmsNorm({x.data(), width, 20, width}, weight, 1e-5f, {out.data(), width, 20, width}, pool);
    for (size_t row = 0; row < 20; ++row) {
      double squares = 0;
      for (size_t channel = 0; channel < width; ++channel) squares += std::pow(double{x[row * width + channel]}, 2);
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
      for (size_t channel = 0; channel < width; ++channel) {
        const double want = x[row * width + channel] * scale * weight[channel];
        EXPECT_NEAR(out[row * width + channel], want, 1e-6 * (1 + std::abs(want)));
      }
    }
  }
}

TEST(SiluProduct, MatchesItsDefinitionOverTheWholeRange) {
  ThreadPool pool(1);
  std::vector<float> inputs = {0.0f, -0.0f, 1e-30f, 1e30f, -1e30f, 3e38f, -3e38f, 88.0f, -88.0f, 87.5f, -104.0f};
  for (int step = -4000; step <= 4000; ++step) inputs.push_back(static_cast<float>(step) * 0.0251f);
  for (const std::string& target : SupportedTargets()) {
    ASSERT_TRUE(ForceTarget(target).has_value());
    std::vector<float> gate = inputs;
    std::vector<float> up(inputs.size(), 1.0f);
    SiluProduct({gate.data(), gate.size(), 1, gate.size()}, {up.data(), up.size(), 1, up.size()}, pool);
    for (size_t index = 0; index < inputs.size(); ++index) {
      const double x = inputs[index];
      const double want = x / (1.0 + std::exp(-x));
      // Two ulp of exp and one each of sum and quotient; 2e-36 is what is taken as 0.
      EXPECT_NEAR(gate[index], want, 4e-7 * std::abs(want) + 2e-36) << target << " " << x;
    }
  }
  ASSERT_TRUE(ForceTarget("").has_value());
}

TEST(ApplyRotary, TurnsHalfSplitPairs) {
  ThreadPool pool(1);
  RotaryTable table({1.0f, 0.01f});
  table.Reserve(1000);
  std::vector<float> x = {1, 2, 3, 4, 9, /* second head */ -1, 0, 2, 5, 7};  // head size 5: the last channel stays
  const std::vector<int64_t> positions = {700};
  ApplyRotary({x.data(), 10, 1, 10}, 5, positions, table, pool);
  const double c0 = std::cos(700.0), s0 = std::sin(700.0);
  const double c1 = std::cos(700 * double{0.01f}), s1 = std::sin(700 * double{0.01f});
  const double want[] = {1 * c0 - 3 * s0,  2 * c1 - 4 * s1, 3 * c0 + 1 * s0, 4 * c1 + 2 * s1, 9,
                         -1 * c0 - 2 * s0, 0 * c1 - 5 * s1, 2 * c0 - 1 * s0, 5 * c1 + 0 * s1, 7};
  for (size_t index = 0; index < x.size(); ++index) EXPECT_NEAR(x[index], want[index], 1e-5) << index;
}

}  // namespace
}  // namespace kvant
