// How far an arm's next-token distributions are from the reference's over the scored tokens of a span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/model/transformer.h"

namespace kvant {

// Per scored token, in order. Natural logarithms. Everything is over all `scored` next-token distributions except the
// losses, which have one entry per target inside the span: scored - 1, the last token has none.
struct Divergence {
  std::vector<double> kl;       // KL(reference || arm)
  std::vector<uint8_t> agree;   // 1 where both have the same most likely token
  std::vector<double> nll;      // -log p_arm(next token)
  std::vector<double> ref_nll;  // -log p_reference(next token)

  double MeanKl() const;
  double P99Kl() const;  // linear interpolation
  double Top1() const;   // share of agreements
  double Ppl() const;    // exp(mean nll)
  double RefPpl() const;
};

// reference and arm: [scored][hidden] final hidden states; scored_tokens: the ids of the span. Logits of both are
// recomputed tile by tile over the vocabulary in the same products, so identical states give KL exactly 0, and memory
// is rows * tile, not rows * vocabulary. Fails when a logit is not finite, naming the position in the span and the
// side, and for an id outside the vocabulary. Cost: 4 * scored * hidden * vocabulary FLOP and two exponentials per
// logit.
Result<Divergence> Compare(Transformer& transformer, ThreadPool& pool, const float* reference, const float* arm,
                           std::span<const int32_t> scored_tokens);

}  // namespace kvant
