#include "kvant/attn/reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace kvant::reference {
namespace {

// The visible tokens of one side for one query: token -> its decoded row.
std::map<int64_t, std::vector<float>> VisibleRows(const SideView& side, size_t kv_heads, size_t head, int64_t query) {
  std::map<int64_t, std::vector<float>> rows;
  for (const Segment& segment : side.segments) {
    for (int64_t token = segment.token_begin; token < segment.token_end; ++token) {
      const int64_t age = query - token;
      if (age < segment.min_age || age >= segment.max_age) continue;
      std::vector<float>& row = rows[token];
      row.resize(side.head_dim);
      DecodeUnits(segment.codec, RunOf(segment, kv_heads, side.head_dim, head, token, 1), row.data(), side.head_dim);
    }
  }
  return rows;
}

}  // namespace

void Attention(const AttentionShape& shape, const AttentionItem& item) {
  const KvView& view = item.view;
  const size_t group = shape.q_heads / view.kv_heads;
  for (size_t index = 0; index < item.tokens; ++index) {
    for (size_t q_head = 0; q_head < shape.q_heads; ++q_head) {
      const int64_t query = item.first_token + static_cast<int64_t>(index);
      const auto keys = VisibleRows(view.k, view.kv_heads, q_head / group, query);
      const auto values = VisibleRows(view.v, view.kv_heads, q_head / group, query);
      std::vector<float> q(item.q + index * item.q_stride + q_head * view.k.head_dim,
                           item.q + index * item.q_stride + (q_head + 1) * view.k.head_dim);
      ApplyTransforms({view.k.transforms.begin(), view.k.transforms.end()}, q.data(), 1, q.size(), q.size());
      std::vector<double> scores;
      for (const auto& [token, row] : keys) {
        double score = 0;
        for (size_t channel = 0; channel < q.size(); ++channel) score += double{q[channel]} * row[channel];
        scores.push_back(score * shape.score_scale);
      }
      const double top = scores.empty() ? 0.0 : *std::max_element(scores.begin(), scores.end());
      std::vector<double> sum(view.v.head_dim);
      double weight_sum = 0;
      size_t place = 0;
      for (const auto& [token, unused_key] : keys) {
        const double weight = std::exp(scores[place++] - top);
        weight_sum += weight;
        const std::vector<float>& row = values.at(token);
        for (size_t channel = 0; channel < sum.size(); ++channel) sum[channel] += weight * row[channel];
      }
      float* out = item.out + index * item.out_stride + q_head * view.v.head_dim;
      for (size_t channel = 0; channel < sum.size(); ++channel) {
        out[channel] = static_cast<float>(weight_sum == 0 ? 0.0 : sum[channel] / weight_sum);
      }
      InvertTransforms({view.v.transforms.begin(), view.v.transforms.end()}, out, 1, view.v.head_dim, view.v.head_dim);
    }
  }
}

}  // namespace kvant::reference
