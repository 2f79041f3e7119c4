// Sizes of a cache by arithmetic alone: what a policy will store for a model and a number of tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/cache/policy.h"

namespace kvant {

// One attention layer of a model.
struct LayerShape {
  size_t kv_heads = 0;
  size_t k_head_dim = 0;
  size_t v_head_dim = 0;
  int64_t sliding_window = 0;  // tokens that a query can see, itself included; 0 = all
};

struct StreamBytes {
  uint64_t coded = 0;   // in the policy's format
  uint64_t window = 0;  // exact recent tokens
  uint64_t sinks = 0;   // exact first tokens
  uint64_t values = 0;  // tokens * kv_heads * head_dim

  uint64_t total() const { return coded + window + sinks; }
  StreamBytes& operator+=(const StreamBytes& other);
};

struct CacheBytes {
  StreamBytes k;
  StreamBytes v;
};

// All stored bits, scales and padding included, per value.
inline double BitsPerValue(const StreamBytes& bytes) {
  return bytes.values == 0 ? 0.0 : 8.0 * static_cast<double>(bytes.total()) / static_cast<double>(bytes.values);
}

// Refuses by layer and side what cannot be stored: before any memory is allocated.
Status Supports(const Policy& policy, const std::vector<LayerShape>& layers);

// Bytes of one stream after `tokens` tokens. Sinks come first, then the window, then what is left is coded.
StreamBytes PredictBytes(const StreamPolicy& policy, size_t kv_heads, size_t head_dim, uint64_t tokens);
// Bytes of all layers of one sequence.
CacheBytes PredictBytes(const Policy& policy, const std::vector<LayerShape>& layers, uint64_t tokens);

}  // namespace kvant
