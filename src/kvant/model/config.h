// What an architecture file (arch/*) says of a model: sizes per layer, so that hybrids fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvant/cache/geometry.h"

namespace kvant {

struct AttentionConfig {
  size_t q_heads = 0;
  size_t kv_heads = 0;
  size_t k_head_dim = 0;  // of queries and keys
  size_t v_head_dim = 0;
  size_t rotary_dim = 0;  // leading channels that RoPE turns
  float score_scale = 0;
};

struct LayerConfig {
  AttentionConfig attention;
  size_t ffn_width = 0;
};

struct ModelConfig {
  std::string architecture;  // GGUF's general.architecture
  std::string name;
  size_t hidden = 0;
  size_t vocabulary = 0;
  size_t context_limit = 0;  // tokens that the model was trained for
  float norm_epsilon = 0;
  std::vector<float> rotary_frequencies;  // radians per position of each rotary pair, [rotary_dim / 2]
  std::vector<LayerConfig> layers;
  bool tied_head = false;
};

// One entry per attention layer, in the order that policies count them.
std::vector<LayerShape> CacheShapes(const ModelConfig& config);

// Weights read once per token outside the head: the matrix products' true size, for FLOP counts.
uint64_t MatrixParameters(const ModelConfig& config);

}  // namespace kvant
