#include "kvant/model/config.h"

namespace kvant {

std::vector<LayerShape> CacheShapes(const ModelConfig& config) {
  std::vector<LayerShape> shapes;
  for (const LayerConfig& layer : config.layers) {
    shapes.push_back({layer.attention.kv_heads, layer.attention.k_head_dim, layer.attention.v_head_dim, 0});
  }
  return shapes;
}

uint64_t MatrixParameters(const ModelConfig& config) {
  uint64_t total = 0;
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig& attention = layer.attention;
    const uint64_t q_width = attention.q_heads * attention.k_head_dim;
    const uint64_t kv_width = attention.kv_heads * (attention.k_head_dim + attention.v_head_dim);
    const uint64_t out_width = attention.q_heads * attention.v_head_dim;
    total += config.hidden * (q_width + kv_width + out_width + 3 * layer.ffn_width);
  }
  return total;
}

}  // namespace kvant
