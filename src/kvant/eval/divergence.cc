#include "kvant/eval/divergence.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kvant/metrics/divergence.h"
#include "kvant/metrics/summary.h"

namespace kvant {
namespace {
// Vocabulary entries per tile: 2 x 256 rows of them are 2 MB, within the last-level cache.
constexpr size_t kVocabularyTile = 1024;
// Positions per block: bounds memory for long spans.
constexpr size_t kBlockPositions = 512;

// A token without finite logits: whose fault it is decides what the reader should do about it.
tl::unexpected<Error> NotFinite(Transformer& transformer, const float* reference, size_t token) {
  const size_t vocabulary = transformer.model().config().vocabulary;
  std::vector<float> logits(kVocabularyTile);
  for (size_t first = 0; first < vocabulary; first += kVocabularyTile) {
    const size_t count = std::min(kVocabularyTile, vocabulary - first);
    transformer.Logits(reference, transformer.model().config().hidden, 1, first, count, logits.data(), kVocabularyTile);
    if (!std::all_of(logits.begin(), logits.begin() + static_cast<ptrdiff_t>(count),
                     [](float logit) { return std::isfinite(logit); })) {
      return Fail("scored token {}: the reference's logits are not finite: the model's weights are damaged", token);
    }
  }
  return Fail("scored token {}: the logits are not finite: the policy's error has overflowed the model", token);
}
}  // namespace

double Divergence::MeanKl() const { return Mean(kl); }
double Divergence::P99Kl() const { return Percentile(kl, 99); }
double Divergence::Ppl() const { return std::exp(Mean(nll)); }
double Divergence::RefPpl() const { return std::exp(Mean(ref_nll)); }
double Divergence::Top1() const {
  size_t sum = 0;
  for (const uint8_t one : agree) sum += one;
  return agree.empty() ? std::nan("") : static_cast<double>(sum) / static_cast<double>(agree.size());
}

Result<Divergence> Compare(Transformer& transformer, ThreadPool& pool, const float* reference, const float* arm,
                           std::span<const int32_t> scored_tokens) {
  const ModelConfig& config = transformer.model().config();
  const size_t scored = scored_tokens.size();
  const size_t stride = PaddedStride(config.hidden);
  const size_t tile_stride = PaddedStride(kVocabularyTile);
  for (const int32_t token : scored_tokens) {
    if (token < 0 || static_cast<size_t>(token) >= config.vocabulary) {
      return Fail("token id {} is outside the model's vocabulary of {}", token, config.vocabulary);
    }
  }
  for (size_t token = 0; token < scored; ++token) {
    const float* row = reference + token * config.hidden;
    // A residual stream whose squares overflow f32 is normalised to zeros: every arm would then agree perfectly.
    if (std::all_of(row, row + config.hidden, [](float value) { return value == 0.0f; })) {
      return Fail(
          "scored token {}: all final activations of the reference are 0: the model overflows 32-bit floats or "
          "is damaged",
          token);
    }
  }
  Divergence out;
  for (size_t begin = 0; begin < scored; begin += kBlockPositions) {
    const size_t positions = std::min(kBlockPositions, scored - begin);
    // Rows of the reference, then rows of the arm: one product gives both logits.
    AlignedBuffer<float> hidden(2 * positions * stride);
    for (size_t index = 0; index < positions; ++index) {
      const size_t from = (begin + index) * config.hidden;
      std::memcpy(&hidden[index * stride], reference + from, config.hidden * sizeof(float));
      std::memcpy(&hidden[(positions + index) * stride], arm + from, config.hidden * sizeof(float));
    }
    AlignedBuffer<float> logits(2 * positions * tile_stride);
    std::vector<DivergenceAccumulator> accumulators;
    for (size_t index = 0; index < positions; ++index) {
      const size_t next = begin + index + 1;
      accumulators.emplace_back(next < scored ? static_cast<uint32_t>(scored_tokens[next])
                                              : DivergenceAccumulator::kNoTarget);
    }
    for (size_t first = 0; first < config.vocabulary; first += kVocabularyTile) {
      const size_t count = std::min(kVocabularyTile, config.vocabulary - first);
      transformer.Logits(hidden.data(), stride, 2 * positions, first, count, logits.data(), tile_stride);
      pool.For((positions + 7) / 8, [&](size_t task, size_t) {
        for (size_t index = task * 8; index < std::min(positions, (task + 1) * 8); ++index) {
          accumulators[index].Add({&logits[index * tile_stride], count},
                                  {&logits[(positions + index) * tile_stride], count});
        }
      });
    }
    for (size_t index = 0; index < positions; ++index) {
      const TokenDivergence token = accumulators[index].Finish();
      if (!token.finite) {
        return NotFinite(transformer, reference + (begin + index) * config.hidden, begin + index);
      }
      out.kl.push_back(token.kl);
      out.agree.push_back(token.agree() ? 1 : 0);
      if (begin + index + 1 < scored) {
        out.nll.push_back(token.nll);
        out.ref_nll.push_back(token.ref_nll);
      }
    }
  }
  return out;
}

}  // namespace kvant
