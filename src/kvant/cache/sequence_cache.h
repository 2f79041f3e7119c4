// The cache of one sequence: K and V streams of every attention layer.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/cache/geometry.h"
#include "kvant/cache/policy.h"
#include "kvant/cache/stream.h"
#include "kvant/cache/view.h"

namespace kvant {

// Move-only. Memory grows page by page (kPageTokens tokens) as tokens are appended.
class SequenceCache {
 public:
  // Refuses what cannot be stored, by name, before it allocates.
  static Result<SequenceCache> Create(const Policy& policy, const std::vector<LayerShape>& layers);

  size_t layers() const { return layers_.size(); }
  int64_t tokens() const { return layers_.empty() ? 0 : layers_.front().k.tokens(); }

  // Rows of [kv_heads][head_dim], one per token, `*_stride` values apart: the next tokens of layer `layer`.
  void Append(size_t layer, const float* k, size_t k_stride, const float* v, size_t v_stride, size_t tokens,
              ThreadPool& pool);
  KvView View(size_t layer) const;
  // Call when the attention of the appended tokens is done.
  void Settle(size_t layer);

  CacheBytes Bytes() const;
  EncodeStats Stats() const;
  // SHA-256 of all stored bytes, layer by layer, K before V. Two arms that stored different bytes differ in it.
  std::string Hash() const;

 private:
  struct Layer {
    LayerShape shape;
    KvStream k;
    KvStream v;
  };
  std::vector<Layer> layers_;
};

}  // namespace kvant
