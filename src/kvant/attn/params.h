// What every attention call needs to know of its layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kvant/cache/view.h"

namespace kvant {

struct AttentionShape {
  size_t q_heads = 0;     // a multiple of the view's kv_heads; head h reads KV head h / (q_heads / kv_heads)
  float score_scale = 0;  // scores are score_scale * q.k; usually 1 / sqrt(head_dim)
};

// The consecutive queries of one sequence.
struct AttentionItem {
  KvView view;
  const float* q = nullptr;  // [tokens][q_heads][k.head_dim], rows q_stride apart
  size_t q_stride = 0;
  float* out = nullptr;  // [tokens][q_heads][v.head_dim], rows out_stride apart; must not alias q
  size_t out_stride = 0;
  size_t tokens = 0;
  int64_t first_token = 0;  // position of the first query; its own key is already in the view
};

}  // namespace kvant
