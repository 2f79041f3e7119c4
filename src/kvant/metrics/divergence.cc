#include "kvant/metrics/divergence.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvant/base/check.h"

namespace kvant {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct TileMax {
  float value;
  uint32_t index;
  bool finite;
};

TileMax MaxOf(std::span<const float> tile) {
  float value = tile[0];
  float poison = 0;  // x * 0 is NaN for NaN and infinities
  for (const float logit : tile) {
    value = logit > value ? logit : value;
    poison += logit * 0.0f;
  }
  // The first index that holds the maximum; 0 when a NaN in front hides it, where the result is flagged anyway.
  const auto at = std::find(tile.begin(), tile.end(), value);
  const size_t index = at == tile.end() ? 0 : static_cast<size_t>(at - tile.begin());
  return {value, static_cast<uint32_t>(index), !std::isnan(poison)};
}

}  // namespace

void DivergenceAccumulator::Add(std::span<const float> reference, std::span<const float> arm) {
  KVANT_CHECK(reference.size() == arm.size());
  if (reference.empty()) return;
  const TileMax ref_max = MaxOf(reference);
  const TileMax arm_max = MaxOf(arm);
  finite_ = finite_ && ref_max.finite && arm_max.finite;
  const uint32_t begin = seen_;
  seen_ += static_cast<uint32_t>(reference.size());
  if (!finite_) return;

  if (begin == 0) {
    reference_.max = ref_max.value;
    arm_.max = arm_max.value;
    reference_.argmax = ref_max.index;
    arm_.argmax = arm_max.index;
  }
  const double ref_shift = std::max(0.0, ref_max.value - reference_.max);
  const double arm_shift = std::max(0.0, arm_max.value - arm_.max);
  if (ref_shift > 0) {
    reference_.max = ref_max.value;
    reference_.argmax = begin + ref_max.index;
  }
  if (arm_shift > 0) {
    arm_.max = arm_max.value;
    arm_.argmax = begin + arm_max.index;
  }
  // Raising the maxima changes every earlier factor by the same amount. Nothing summed yet: nothing to move, and
  // a scale of exp(-huge) = 0 must not meet a huge shift.
  const double ref_scale = std::exp(-ref_shift);
  cross_ = ref_scale * cross_ + ref_scale * reference_.sum * (arm_shift - ref_shift);
  reference_.sum *= ref_scale;
  arm_.sum *= std::exp(-arm_shift);

  double ref_sum = 0;
  double arm_sum = 0;
  double cross = 0;
  for (size_t entry = 0; entry < reference.size(); ++entry) {
    const double ref_logit = reference[entry] - reference_.max;
    const double arm_logit = arm[entry] - arm_.max;
    const double weight = std::exp(ref_logit);
    ref_sum += weight;
    arm_sum += std::exp(arm_logit);
    cross += weight * (ref_logit - arm_logit);
  }
  reference_.sum += ref_sum;
  arm_.sum += arm_sum;
  cross_ += cross;

  if (target_ >= begin && target_ < seen_) {
    reference_.target_logit = reference[target_ - begin];
    arm_.target_logit = arm[target_ - begin];
  }
}

TokenDivergence DivergenceAccumulator::Finish() const {
  TokenDivergence result;
  result.finite = finite_ && seen_ > 0;
  result.ref_argmax = reference_.argmax;
  result.argmax = arm_.argmax;
  result.kl = result.ref_nll = result.nll = kNan;
  if (!result.finite) return result;

  const double ref_log_sum = std::log(reference_.sum);
  const double arm_log_sum = std::log(arm_.sum);
  const double kl = cross_ / reference_.sum - (ref_log_sum - arm_log_sum);
  // Never negative in exact arithmetic. Each of the two terms is rounded to about 1e-16 of itself times the square
  // root of the vocabulary, so nearly equal rows may come out near -1e-14: that is zero. Beyond -1e-9 the sums
  // would be wrong, not rounded, and hiding that would be a fault of ours.
  KVANT_CHECK(kl > -1e-9);
  result.kl = std::max(0.0, kl);
  if (target_ < seen_) {
    result.ref_nll = (reference_.max - reference_.target_logit) + ref_log_sum;
    result.nll = (arm_.max - arm_.target_logit) + arm_log_sum;
  }
  return result;
}

}  // namespace kvant
