#include "kvant/results/cell.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kvant/base/check.h"
#include "kvant/metrics/summary.h"

namespace kvant {
namespace {

double BitsPerValue(uint64_t bytes, uint64_t values) {
  if (values == 0) return std::numeric_limits<double>::quiet_NaN();
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
}

}  // namespace

bool SameCell(const CellKey& a, const CellKey& b) {
  return a.policy == b.policy && a.span_end == b.span_end && a.span_length == b.span_length && a.context == b.context &&
         a.mode == b.mode && a.chunk == b.chunk;
}

std::string Describe(const CellKey& key) {
  return fmt::format("{} ({}), {} tokens before the span that ends at {}", key.arm, key.policy, key.context,
                     key.span_end);
}

double CellRecord::bpv_k() const { return BitsPerValue(bytes_k, values_k); }
double CellRecord::bpv_v() const { return BitsPerValue(bytes_v, values_v); }

void FillFromTokens(CellRecord* record) {
  const TokenValues& tokens = record->tokens;
  const size_t scored = tokens.kl.size();
  const size_t targets = scored == 0 ? 0 : scored - 1;
  KVANT_CHECK(tokens.nll.size() == targets && tokens.ref_nll.size() == targets && tokens.agree.size() == scored);
  record->scored = scored;
  record->mean_kl = Mean(tokens.kl);
  record->p99_kl = Percentile(tokens.kl, 99);
  record->nll = Mean(tokens.nll);
  record->ppl = std::exp(record->nll);
  record->ref_nll = Mean(tokens.ref_nll);
  record->ref_ppl = std::exp(record->ref_nll);
  const auto agreeing = std::count_if(tokens.agree.begin(), tokens.agree.end(), [](uint8_t agree) { return agree; });
  record->top1 = static_cast<double>(agreeing) / static_cast<double>(scored);

  size_t broken = 0;
  for (size_t token = 0; token < scored; ++token) {
    const bool loss_finite =
        token >= targets || (std::isfinite(tokens.nll[token]) && std::isfinite(tokens.ref_nll[token]));
    broken += std::isfinite(tokens.kl[token]) && loss_finite ? 0 : 1;
  }
  if (broken > 0) {
    record->status = CellStatus::kFailed;
    record->reason = fmt::format("{} of {} scored tokens have a KL or a loss that is not finite", broken, scored);
  } else if (scored == 0) {
    record->status = CellStatus::kFailed;
    record->reason = "no token was scored";
  }
}

}  // namespace kvant
