#include "kvant/metrics/summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kvant/base/check.h"
#include "kvant/base/rng.h"

namespace kvant {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Block {
  double sum;
  size_t tokens;
};

void AppendBlocks(std::span<const double> run, size_t block_tokens, std::vector<Block>* blocks) {
  for (size_t begin = 0; begin < run.size(); begin += block_tokens) {
    const size_t tokens = std::min(block_tokens, run.size() - begin);
    blocks->push_back({Sum(run.subspan(begin, tokens)), tokens});
  }
}

Interval BootstrapBlocks(std::span<const Block> blocks, const BootstrapOptions& options) {
  if (blocks.size() < 2 || options.resamples == 0) return {kNan, kNan};
  for (const Block& block : blocks) {
    if (!std::isfinite(block.sum)) return {kNan, kNan};
  }
  const CounterRng rng(options.seed);
  std::vector<double> means(options.resamples);
  std::vector<double> drawn(blocks.size());
  for (size_t resample = 0; resample < options.resamples; ++resample) {
    size_t tokens = 0;
    for (size_t draw = 0; draw < blocks.size(); ++draw) {
      const Block& block = blocks[rng.Below(resample * blocks.size() + draw, blocks.size())];
      drawn[draw] = block.sum;
      tokens += block.tokens;
    }
    means[resample] = Sum(drawn) / static_cast<double>(tokens);
  }
  const double tail = 50.0 * (1.0 - options.level);
  return {Percentile(means, tail), Percentile(means, 100.0 - tail)};
}

}  // namespace

double Sum(std::span<const double> values) {
  double sum = 0;
  double lost = 0;
  for (const double value : values) {
    const double next = sum + value;
    lost += std::abs(sum) >= std::abs(value) ? (sum - next) + value : (value - next) + sum;
    sum = next;
  }
  // After an infinity `lost` is NaN; the plain sum is then the answer.
  return std::isfinite(sum) ? sum + lost : sum;
}

double Mean(std::span<const double> values) {
  return values.empty() ? kNan : Sum(values) / static_cast<double>(values.size());
}

double Percentile(std::span<const double> values, double percent) {
  if (values.empty() || std::isnan(percent)) return kNan;
  std::vector<double> sorted(values.begin(), values.end());
  if (std::any_of(sorted.begin(), sorted.end(), [](double value) { return std::isnan(value); })) return kNan;
  std::sort(sorted.begin(), sorted.end());
  const double position = std::clamp(percent, 0.0, 100.0) / 100.0 * static_cast<double>(sorted.size() - 1);
  const size_t below = std::min(static_cast<size_t>(position), sorted.size() - 1);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double fraction = position - static_cast<double>(below);
  // Equal neighbours first: infinities would give inf - inf. Then from the nearer end, so that both ends are exact.
  if (sorted[below] == sorted[above] || fraction == 0) return sorted[below];
  const double gap = sorted[above] - sorted[below];
  return fraction < 0.5 ? sorted[below] + gap * fraction : sorted[above] - gap * (1.0 - fraction);
}

double SignTestPValue(uint64_t wins, uint64_t losses) {
  const uint64_t trials = wins + losses;
  const uint64_t fewer = std::min(wins, losses);
  // Terms C(n, k) / 2^n in logarithms, since 2^-n underflows beyond n = 1074.
  double log_term = -static_cast<double>(trials) * std::log(2.0);
  double tail = 0;
  for (uint64_t count = 0; count <= fewer; ++count) {
    tail += std::exp(log_term);
    log_term += std::log(static_cast<double>(trials - count) / static_cast<double>(count + 1));
  }
  return std::min(1.0, 2.0 * tail);
}

Interval BootstrapMean(std::span<const std::span<const double>> runs, const BootstrapOptions& options) {
  KVANT_CHECK(options.block_tokens > 0);
  std::vector<Block> blocks;
  for (const std::span<const double> run : runs) AppendBlocks(run, options.block_tokens, &blocks);
  return BootstrapBlocks(blocks, options);
}

Interval BootstrapMeanDifference(std::span<const std::span<const double>> a, std::span<const std::span<const double>> b,
                                 const BootstrapOptions& options) {
  KVANT_CHECK(options.block_tokens > 0 && a.size() == b.size());
  std::vector<Block> blocks;
  std::vector<double> difference;
  for (size_t run = 0; run < a.size(); ++run) {
    KVANT_CHECK(a[run].size() == b[run].size());
    difference.resize(a[run].size());
    for (size_t token = 0; token < difference.size(); ++token) difference[token] = a[run][token] - b[run][token];
    AppendBlocks(difference, options.block_tokens, &blocks);
  }
  return BootstrapBlocks(blocks, options);
}

}  // namespace kvant
