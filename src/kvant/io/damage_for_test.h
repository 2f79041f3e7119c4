// Random damage to a valid file. Test code only.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {

// Flips one to four random bits of `good`, many times, and gives each result to `parse_error`, which returns "" for
// what it accepts and checks by itself what every refusal promises. Expects both outcomes, else the trials would test
// nothing; most of a header is structure, so at least a quarter is refused.
template <typename ParseError>
void ExpectDamageIsReadOrRefused(const std::vector<std::byte>& good, uint64_t seed, const ParseError& parse_error) {
  const CounterRng rng(seed);
  uint64_t draw = 0;
  size_t refused = 0;
  constexpr size_t kTrials = 10000;
  for (size_t trial = 0; trial < kTrials; ++trial) {
    std::vector<std::byte> bytes = good;
    const uint64_t flips = 1 + rng.Below(draw++, 4);
    for (uint64_t flip = 0; flip < flips; ++flip) {
      bytes[rng.Below(draw, bytes.size())] ^= static_cast<std::byte>(1u << rng.Below(draw + 1, 8));
      draw += 2;
    }
    refused += parse_error(bytes).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, kTrials / 4) << "seed " << seed;
  EXPECT_LT(refused, kTrials) << "seed " << seed;
}

}  // namespace kvant
