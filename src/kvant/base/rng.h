// Counter-based random numbers: value i of stream s under seed k is a pure function of (k, s, i), the same on every
// machine and for every number of threads. SplitMix64's finalizer (Steele, Lea, Flood 2014) over the counter.
#pragma once

#include <cmath>
#include <cstdint>

namespace kvant {

__extension__ using Uint128 = unsigned __int128;

class CounterRng {
 public:
  explicit CounterRng(uint64_t seed, uint64_t stream = 0) : key_(Mix(seed + 0x9e3779b97f4a7c15u) ^ Mix(~stream)) {}

  uint64_t Bits(uint64_t index) const { return Mix(key_ + 0x9e3779b97f4a7c15u * (index + 1)); }
  // Uniform in [0, 1), 53 bits.
  double Uniform(uint64_t index) const { return static_cast<double>(Bits(index) >> 11) * 0x1p-53; }
  // Uniform integer in [0, n), n > 0; the bias is below n / 2^64.
  uint64_t Below(uint64_t index, uint64_t n) const {
    return static_cast<uint64_t>((static_cast<Uint128>(Bits(index)) * n) >> 64);
  }
  // Standard normal by Box-Muller from counters 2 * index and 2 * index + 1.
  double Normal(uint64_t index) const {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform(2 * index)));
    return radius * std::cos(6.283185307179586476925 * Uniform(2 * index + 1));
  }

 private:
  static constexpr uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t key_;
};

}  // namespace kvant
