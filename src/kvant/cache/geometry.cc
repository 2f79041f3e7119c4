#include "kvant/cache/geometry.h"

#include <algorithm>

namespace kvant {

StreamBytes& StreamBytes::operator+=(const StreamBytes& other) {
  coded += other.coded;
  window += other.window;
  sinks += other.sinks;
  values += other.values;
  return *this;
}

Status Supports(const Policy& policy, const std::vector<LayerShape>& layers) {
  const auto check_indices = [&](const std::vector<LayerOverride>& overrides, char side) -> Status {
    for (const LayerOverride& override : overrides) {
      for (const int layer : override.layers) {
        const auto count = static_cast<int64_t>(layers.size());
        if (layer >= count || layer < -count) {
          return Fail(
              "policy \"{}\": {}[{}] names a layer that the model does not have: its attention layers are 0 to {}",
              policy.text, side, layer, count - 1);
        }
      }
    }
    return {};
  };
  KVANT_RETURN_IF_ERROR(check_indices(policy.k_overrides, 'k'));
  KVANT_RETURN_IF_ERROR(check_indices(policy.v_overrides, 'v'));
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const LayerShape& shape = layers[layer];
    const auto k = Supports(policy.KeysOf(layer, layers.size()).format, shape.kv_heads, shape.k_head_dim);
    if (!k) return Fail("policy \"{}\": keys of layer {}: {}", policy.text, layer, k.error().message);
    const auto v = Supports(policy.ValuesOf(layer, layers.size()).format, shape.kv_heads, shape.v_head_dim);
    if (!v) return Fail("policy \"{}\": values of layer {}: {}", policy.text, layer, v.error().message);
  }
  return {};
}

StreamBytes PredictBytes(const StreamPolicy& policy, size_t kv_heads, size_t head_dim, uint64_t tokens) {
  const auto token_bytes = [&](const CodecSpec& codec) -> uint64_t {
    const size_t unit = UnitElems(codec, kv_heads, head_dim);
    return UnitBytes(codec, unit) * (kv_heads * head_dim / unit);
  };
  const uint64_t sinks = std::min<uint64_t>(tokens, policy.sinks);
  const uint64_t window = std::min<uint64_t>(tokens - sinks, policy.window);
  StreamBytes bytes;
  bytes.sinks = sinks * token_bytes(policy.exact);
  bytes.window = window * token_bytes(policy.exact);
  bytes.coded = (tokens - sinks - window) * token_bytes(policy.format.codec);
  bytes.values = tokens * kv_heads * head_dim;
  return bytes;
}

CacheBytes PredictBytes(const Policy& policy, const std::vector<LayerShape>& layers, uint64_t tokens) {
  CacheBytes bytes;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const LayerShape& shape = layers[layer];
    bytes.k += PredictBytes(policy.KeysOf(layer, layers.size()), shape.kv_heads, shape.k_head_dim, tokens);
    bytes.v += PredictBytes(policy.ValuesOf(layer, layers.size()), shape.kv_heads, shape.v_head_dim, tokens);
  }
  return bytes;
}

}  // namespace kvant
