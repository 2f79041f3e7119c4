#include "kvant/cache/sequence_cache.h"

namespace kvant {

Result<SequenceCache> SequenceCache::Create(const Policy& policy, const std::vector<LayerShape>& layers) {
  KVANT_RETURN_IF_ERROR(Supports(policy, layers));
  SequenceCache cache;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const LayerShape& shape = layers[layer];
    cache.layers_.push_back({shape, KvStream(policy.KeysOf(layer, layers.size()), shape.kv_heads, shape.k_head_dim),
                             KvStream(policy.ValuesOf(layer, layers.size()), shape.kv_heads, shape.v_head_dim)});
  }
  return cache;
}

void SequenceCache::Append(size_t layer, const float* k, size_t k_stride, const float* v, size_t v_stride,
                           size_t tokens, ThreadPool& pool) {
  layers_[layer].k.Append(k, k_stride, tokens, pool);
  layers_[layer].v.Append(v, v_stride, tokens, pool);
}

KvView SequenceCache::View(size_t layer) const {
  const Layer& at = layers_[layer];
  return {at.shape.kv_heads, at.k.View(), at.v.View()};
}

void SequenceCache::Settle(size_t layer) {
  layers_[layer].k.Settle();
  layers_[layer].v.Settle();
}

CacheBytes SequenceCache::Bytes() const {
  CacheBytes bytes;
  for (const Layer& layer : layers_) {
    bytes.k += layer.k.Bytes();
    bytes.v += layer.v.Bytes();
  }
  return bytes;
}

EncodeStats SequenceCache::Stats() const {
  EncodeStats sum;
  for (const Layer& layer : layers_) {
    for (const EncodeStats& part : {layer.k.stats(), layer.v.stats()}) {
      sum.values += part.values;
      sum.saturated += part.saturated;
      sum.non_finite += part.non_finite;
    }
  }
  return sum;
}

std::string SequenceCache::Hash() const {
  Sha256 sha;
  for (const Layer& layer : layers_) {
    layer.k.HashInto(sha);
    layer.v.HashInto(sha);
  }
  return sha.Hex();
}

}  // namespace kvant
