#include "kvant/model/transformer.h"

#include <algorithm>
#include <cstring>

#include "kvant/base/check.h"
#include "kvant/base/rng.h"

namespace kvant {
namespace {

void AddRoundingNoise(uint64_t seed, int64_t position, float* row, size_t width) {
  const CounterRng rng(seed, static_cast<uint64_t>(position));
  for (size_t channel = 0; channel < width; ++channel) {
    const auto steps = static_cast<float>(rng.Below(channel, 3)) - 1.0f;
    row[channel] *= 1.0f + steps * 0x1p-23f;
  }
}

}  // namespace

Transformer::Transformer(const Model& model, ThreadPool& pool)
    : model_(model), pool_(pool), rotary_(model.config().rotary_frequencies) {}

RowsView Transformer::View(AlignedBuffer<float>& buffer, size_t width) const {
  const size_t stride = PaddedStride(width);
  buffer.Reserve(rows_ * stride);
  return {buffer.data(), stride, rows_, width};
}

void Transformer::Step(std::span<const StepRows> batch) {
  const ModelConfig& config = model_.config();
  const ModelWeights& weights = model_.weights();
  positions_.clear();
  for (const StepRows& rows : batch) {
    for (size_t index = 0; index < rows.tokens.size(); ++index) {
      positions_.push_back(rows.cache->tokens() + static_cast<int64_t>(index));
    }
  }
  rows_ = positions_.size();
  if (rows_ == 0) return;
  rotary_.Reserve(static_cast<size_t>(*std::max_element(positions_.begin(), positions_.end())) + 1);

  const RowsView residual = View(residual_, config.hidden);
  size_t row = 0;
  for (const StepRows& rows : batch) {
    for (const int32_t token : rows.tokens) {
      KVANT_CHECK(token >= 0 && static_cast<size_t>(token) < config.vocabulary);
      weights.embedding.Expand(static_cast<size_t>(token), residual.Row(row));
      if (noise_seed_) AddRoundingNoise(*noise_seed_, positions_[row], residual.Row(row), config.hidden);
      ++row;
    }
  }

  for (size_t layer = 0; layer < config.layers.size(); ++layer) {
    Attend(layer, batch);
    FeedForward(layer);
  }

  const RowsView normed = View(normed_, config.hidden);
  RmsNorm(residual, weights.final_norm, config.norm_epsilon, normed, pool_);
  row = 0;
  for (const StepRows& rows : batch) {
    for (size_t index = 0; index < rows.tokens.size(); ++index, ++row) {
      if (rows.hidden == nullptr || index < rows.hidden_from) continue;
      std::memcpy(rows.hidden + (index - rows.hidden_from) * config.hidden, normed.Row(row),
                  config.hidden * sizeof(float));
    }
  }
}

// residual += W_o attention(rope(W_q u), rope(W_k u), W_v u) with u = norm(residual).
void Transformer::Attend(size_t layer, std::span<const StepRows> batch) {
  const AttentionConfig& at = model_.config().layers[layer].attention;
  const LayerWeights& weights = model_.weights().layers[layer];
  const RowsView residual = View(residual_, model_.config().hidden);
  const RowsView normed = View(normed_, model_.config().hidden);
  const RowsView q = View(q_, at.q_heads * at.k_head_dim);
  const RowsView k = View(k_, at.kv_heads * at.k_head_dim);
  const RowsView v = View(v_, at.kv_heads * at.v_head_dim);
  const RowsView attended = View(attended_, at.q_heads * at.v_head_dim);

  RmsNorm(residual, weights.attention_norm, model_.config().norm_epsilon, normed, pool_);
  const ProductTerm qkv[] = {weights.q.Term(q.data, q.stride), weights.k.Term(k.data, k.stride),
                             weights.v.Term(v.data, v.stride)};
  MatrixProduct({normed.data, normed.stride, rows_, normed.width}, qkv, pool_, product_scratch_);
  ApplyRotary(q, at.k_head_dim, positions_, rotary_, pool_);
  ApplyRotary(k, at.k_head_dim, positions_, rotary_, pool_);

  std::vector<AttentionItem> items;
  size_t row = 0;
  for (const StepRows& rows : batch) {
    const size_t tokens = rows.tokens.size();
    rows.cache->Append(layer, k.Row(row), k.stride, v.Row(row), v.stride, tokens, pool_);
    if (tokens > 0) {
      items.push_back(
          {rows.cache->View(layer), q.Row(row), q.stride, attended.Row(row), attended.stride, tokens, positions_[row]});
    }
    row += tokens;
  }
  PrefillAttention({at.q_heads, at.score_scale}, items, pool_, attention_scratch_);
  for (const StepRows& rows : batch) rows.cache->Settle(layer);

  const ProductTerm out = weights.attention_out.Term(residual.data, residual.stride, /*add=*/true);
  MatrixProduct({attended.data, attended.stride, rows_, attended.width}, std::span(&out, 1), pool_, product_scratch_);
}

// residual += W_down (silu(W_gate u) * W_up u) with u = norm(residual).
void Transformer::FeedForward(size_t layer) {
  const LayerWeights& weights = model_.weights().layers[layer];
  const RowsView residual = View(residual_, model_.config().hidden);
  const RowsView normed = View(normed_, model_.config().hidden);
  const RowsView gate = View(gate_, model_.config().layers[layer].ffn_width);
  const RowsView up = View(up_, gate.width);

  RmsNorm(residual, weights.ffn_norm, model_.config().norm_epsilon, normed, pool_);
  const ProductTerm gate_up[] = {weights.gate.Term(gate.data, gate.stride), weights.up.Term(up.data, up.stride)};
  MatrixProduct({normed.data, normed.stride, rows_, normed.width}, gate_up, pool_, product_scratch_);
  SiluProduct(gate, up, pool_);
  const ProductTerm down = weights.down.Term(residual.data, residual.stride, /*add=*/true);
  MatrixProduct({gate.data, gate.stride, rows_, gate.width}, std::span(&down, 1), pool_, product_scratch_);
}

void Transformer::Logits(const float* hidden, size_t hidden_stride, size_t rows, size_t first, size_t count,
                         float* logits, size_t logits_stride) {
  const ProductTerm term = model_.weights().head.Term(logits, logits_stride, first, count);
  MatrixProduct({hidden, hidden_stride, rows, model_.config().hidden}, std::span(&term, 1), pool_, product_scratch_);
}

size_t Transformer::scratch_bytes() const {
  size_t bytes = attention_scratch_.bytes() + product_scratch_.bytes();
  for (const AlignedBuffer<float>* buffer : {&residual_, &normed_, &q_, &k_, &v_, &attended_, &gate_, &up_}) {
    bytes += buffer->bytes();
  }
  return bytes;
}

}  // namespace kvant
