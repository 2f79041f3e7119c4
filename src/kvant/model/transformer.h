// The forward pass: one function for prefill in chunks, decode, and several sequences side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvant/attn/prefill.h"
#include "kvant/base/parallel.h"
#include "kvant/cache/sequence_cache.h"
#include "kvant/model/model.h"
#include "kvant/model/ops.h"
#include "kvant/tensor/matrix_product.h"

namespace kvant {

// The next tokens of one sequence.
struct StepRows {
  SequenceCache* cache = nullptr;   // its own policy; tokens are appended to it
  std::span<const int32_t> tokens;  // ids below the vocabulary size
  // Where the final hidden states (after the last norm) of tokens [hidden_from, tokens.size()) go, [][hidden]; null
  // if none are wanted.
  float* hidden = nullptr;
  size_t hidden_from = 0;
};

// Holds the activations of one step; reused between steps. Not thread-safe.
class Transformer {
 public:
  // `model` and `pool` must outlive it.
  Transformer(const Model& model, ThreadPool& pool);

  // Runs the rows of all sequences through the model together: weights are expanded once for all of them. The result
  // of a sequence has the same bits whatever stands beside it, however its tokens are cut into steps, and for every
  // number of threads. No two entries share a cache.
  void Step(std::span<const StepRows> batch);

  // logits[row][0 .. count) of vocabulary entries [first, first + count), for `rows` hidden states `hidden_stride`
  // apart.
  void Logits(const float* hidden, size_t hidden_stride, size_t rows, size_t first, size_t count, float* logits,
              size_t logits_stride);

  // Moves every embedding value by -1, 0 or +1 unit in its last place, drawn by (seed, position, channel): another
  // outcome of rounding that is as right as any. Quantization amplifies it: a key that lies within rounding of a code's
  // boundary gets the other code, and layer by layer most of the noise becomes another draw of itself
  // (docs/decisions/0002-rounding-realizations.md). No seed: no noise, the default.
  void SetRoundingNoise(std::optional<uint64_t> seed) { noise_seed_ = seed; }

  const Model& model() const { return model_; }
  // Bytes of activations and scratch held now.
  size_t scratch_bytes() const;

 private:
  void Attend(size_t layer, std::span<const StepRows> batch);
  void FeedForward(size_t layer);
  RowsView View(AlignedBuffer<float>& buffer, size_t width) const;

  const Model& model_;
  ThreadPool& pool_;
  RotaryTable rotary_;
  ProductScratch product_scratch_;
  PrefillScratch attention_scratch_;
  std::optional<uint64_t> noise_seed_;
  size_t rows_ = 0;
  std::vector<int64_t> positions_;
  AlignedBuffer<float> residual_;
  AlignedBuffer<float> normed_;
  AlignedBuffer<float> q_;
  AlignedBuffer<float> k_;
  AlignedBuffer<float> v_;
  AlignedBuffer<float> attended_;
  AlignedBuffer<float> gate_;
  AlignedBuffer<float> up_;
};

}  // namespace kvant
