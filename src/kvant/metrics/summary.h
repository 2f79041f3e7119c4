// Numbers that summarise arrays: sums, means, percentiles, intervals and a sign test. Pure functions; f64 throughout;
// the same bits on every machine. Nothing here fails: an input without an answer gives NaN, as stated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace kvant {

// Compensated sum (Neumaier 1974): the error does not grow with the number of terms. Empty: 0.
double Sum(std::span<const double> values);

// Empty: NaN.
double Mean(std::span<const double> values);

// The `percent`-th percentile (0..100, clamped) by linear interpolation between closest ranks: position
// (n - 1) * percent / 100 in the sorted list, the default of numpy. Empty or with a NaN inside: NaN. Cost: one sort of
// a copy.
double Percentile(std::span<const double> values, double percent);

// Exact two-sided sign test: the chance of a split at least as uneven as wins : losses under a fair coin, at most 1.
// Ties are left out by the caller. 0 : 0 gives 1. Cost: O(wins + losses).
double SignTestPValue(uint64_t wins, uint64_t losses);

struct BootstrapOptions {
  // Neighbouring tokens share their difficulty, so single tokens are not independent draws; blocks of 64 nearly are.
  size_t block_tokens = 64;
  size_t resamples = 2000;
  double level = 0.95;
  uint64_t seed = 1;
};

// low and high are NaN where no interval exists: fewer than two blocks, or a value that is not finite.
struct Interval {
  double low;
  double high;
};

// Percentile interval of the mean over all tokens of several runs (spans) of consecutive tokens: every run is cut into
// blocks of block_tokens (the last may be shorter; no block crosses two runs), blocks are drawn with replacement, and
// the mean over the tokens drawn is taken. Draws depend on the seed and the lengths of the runs only.
Interval BootstrapMean(std::span<const std::span<const double>> runs, const BootstrapOptions& options);

// The same for mean(a) - mean(b) where a and b are measured on the same tokens: both use the same draws, so what is
// common to them cancels. Runs of a and b must have the same lengths (checked).
Interval BootstrapMeanDifference(std::span<const std::span<const double>> a, std::span<const std::span<const double>> b,
                                 const BootstrapOptions& options);

}  // namespace kvant
