#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/attn/prefill.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kvant/attn/prefill.h"
#include "kvant/base/check.h"
#include "kvant/tensor/panel_product-inl.h"

#ifndef KVANT_ATTN_PREFILL_CC_ONCE_
#define KVANT_ATTN_PREFILL_CC_ONCE_
namespace kvant {
namespace {

constexpr size_t kTile = kPageTokens;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

inline size_t RoundUp16(size_t value) { return (value + 15) / 16 * 16; }

// A block of consecutive queries of one KV head: rows are (query, query head of the group), query-major.
struct QueryBlock {
  const AttentionItem* item;
  size_t head;         // KV head
  size_t first_query;  // within the item
  size_t queries;
};

// How one worker's scratch is divided. All strides are multiples of 16 values.
struct BlockBuffers {
  size_t rows;
  size_t q_dim;    // K head size
  size_t out_dim;  // V head size
  size_t out_stride;
  float* q;        // [rows][q_dim]
  float* out;      // [rows][out_stride], unnormalised
  float* maximum;  // [rows], base-2 scores
  float* sum;      // [rows]
  float* decoded;  // [kTile][q_dim]
  float* keys;     // [q_dim][kTile]: the K tile, transposed
  float* values;   // [kTile][out_stride]
  float* scores;   // [16][kTile]

  static size_t Elems(size_t rows, size_t q_dim, size_t out_dim) {
    return BlockBuffers(nullptr, rows, q_dim, out_dim).end_;
  }

  BlockBuffers(float* base, size_t rows_in, size_t q_dim_in, size_t out_dim_in)
      : rows(rows_in), q_dim(q_dim_in), out_dim(out_dim_in), out_stride(RoundUp16(out_dim_in)) {
    q = Take(base, rows * q_dim);
    out = Take(base, rows * out_stride);
    maximum = Take(base, rows);
    sum = Take(base, rows);
    decoded = Take(base, kTile * q_dim);
    keys = Take(base, kTile * q_dim);
    values = Take(base, kTile * out_stride);
    scores = Take(base, 16 * kTile);
  }

 private:
  float* Take(float* base, size_t elems) {
    float* at = base == nullptr ? nullptr : base + end_;
    end_ += RoundUp16(elems);
    return at;
  }
  size_t end_ = 0;
};

// Tokens that a K segment and a V segment share, and the ages at which both show them.
struct SegmentPair {
  const Segment* k;
  const Segment* v;
  int64_t begin;
  int64_t end;
  int64_t min_age;
  int64_t max_age;
};

}  // namespace
}  // namespace kvant
#endif  // KVANT_ATTN_PREFILL_CC_ONCE_

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {

// 2^x for x <= 0, within 2 ulp; exactly 0 below -126 and for -infinity. The polynomial interpolates 2^r at the seven
// Chebyshev nodes of [-1/2, 1/2]: relative error 2.6e-9.
HWY_INLINE hn::Vec<PanelTag> Exp2NonPositive(hn::Vec<PanelTag> x) {
  const PanelTag d;
  const hn::RebindToSigned<PanelTag> di;
  const auto clamped = hn::Max(x, hn::Set(d, -126.0f));
  const auto whole = hn::Round(clamped);
  const auto r = hn::Sub(clamped, whole);
  auto p = hn::Set(d, 1.54614447e-4f);
  p = hn::MulAdd(p, r, hn::Set(d, 1.340042818e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 9.618056679e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 5.550327227e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 2.402265092e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 6.931472067e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::ConvertTo(di, whole));
  const auto scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), exponent));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -126.0f)), scaled);
}

// Folds scores[begin, end) (multiples of 16; invisible ones are -infinity) into the row's state: scores become weights
// relative to the new maximum, and the row's output is rescaled when the maximum moved.
HWY_INLINE void FoldRow(float* HWY_RESTRICT scores, size_t begin, size_t end, float& maximum, float& sum,
                        float* HWY_RESTRICT out, size_t out_stride) {
  const PanelTag d;
  constexpr size_t kLanes = hn::MaxLanes(PanelTag());
  auto top = hn::Set(d, kMinusInfinity);
  for (size_t token = begin; token < end; token += kLanes) top = hn::Max(top, hn::LoadU(d, scores + token));
  const float tile_maximum = hn::GetLane(hn::MaxOfLanes(d, top));
  if (tile_maximum == kMinusInfinity) {
    for (size_t token = begin; token < end; token += kLanes) hn::StoreU(hn::Zero(d), d, scores + token);
    return;
  }
  if (tile_maximum > maximum) {
    if (sum != 0.0f) {
      const auto scale = Exp2NonPositive(hn::Set(d, maximum - tile_maximum));
      for (size_t channel = 0; channel < out_stride; channel += kLanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, out + channel), scale), d, out + channel);
      }
      sum *= hn::GetLane(scale);
    }
    maximum = tile_maximum;
  }
  // Sixteen partial sums, token mod 16, added in ascending order: the same for every vector width.
  const auto shift = hn::Set(d, maximum);
  hn::Vec<PanelTag> partial[kPanelVectors];
#pragma GCC unroll 16
  for (size_t vector = 0; vector < kPanelVectors; ++vector) partial[vector] = hn::Zero(d);
  for (size_t token = begin; token < end; token += kPanelColumns) {
#pragma GCC unroll 16
    for (size_t vector = 0; vector < kPanelVectors; ++vector) {
      float* at = scores + token + vector * kLanes;
      const auto weight = Exp2NonPositive(hn::Sub(hn::LoadU(d, at), shift));
      hn::StoreU(weight, d, at);
      partial[vector] = hn::Add(partial[vector], weight);
    }
  }
  float lanes[kPanelColumns];
#pragma GCC unroll 16
  for (size_t vector = 0; vector < kPanelVectors; ++vector) hn::StoreU(partial[vector], d, lanes + vector * kLanes);
  float total = 0.0f;
  for (const float lane : lanes) total += lane;
  sum += total;
}

// Decodes tokens [begin, end) of the tile that starts at `tile_begin` into buffers.keys (transposed) and
// buffers.values. Places of tokens outside are zero, so that no stale bits meet a weight of zero.
HWY_INLINE void DecodeTile(const KvView& view, const SegmentPair& pair, size_t head, int64_t tile_begin, int64_t begin,
                           int64_t end, BlockBuffers& buffers) {
  const auto first = static_cast<size_t>(begin - tile_begin);
  const auto count = static_cast<size_t>(end - begin);
  const size_t last = RoundUp16(first + count);
  const size_t q_dim = buffers.q_dim;
  if (count < kTile) {
    std::fill_n(buffers.decoded, kTile * q_dim, 0.0f);
    std::fill_n(buffers.values, kTile * buffers.out_stride, 0.0f);
  } else if (buffers.out_stride != buffers.out_dim) {
    std::fill_n(buffers.values, kTile * buffers.out_stride, 0.0f);
  }
  DecodeUnits(pair.k->codec, RunOf(*pair.k, view.kv_heads, q_dim, head, begin, count), buffers.decoded + first * q_dim,
              q_dim);
  for (size_t token = first / 16 * 16; token < last; token += 16) {
    PackPanel(buffers.decoded + token * q_dim, q_dim, q_dim, kTile, buffers.keys + token);
  }
  DecodeUnits(pair.v->codec, RunOf(*pair.v, view.kv_heads, buffers.out_dim, head, begin, count),
              buffers.values + first * buffers.out_stride, buffers.out_stride);
}

// All query rows of the block against one decoded tile.
HWY_INLINE void FoldTile(const SegmentPair& pair, const QueryBlock& block, size_t group, int64_t tile_begin,
                         int64_t begin, int64_t end, BlockBuffers& buffers) {
  const int64_t first_query = block.item->first_token + static_cast<int64_t>(block.first_query);
  for (size_t row = 0; row < buffers.rows; row += kTileRows) {
    const size_t count = std::min(kTileRows, buffers.rows - row);
    // Visible places [low, high) of each row within the tile; rows are in query order, so both ends only grow.
    size_t low[kTileRows];
    size_t high[kTileRows];
    for (size_t line = 0; line < count; ++line) {
      const int64_t query = first_query + static_cast<int64_t>((row + line) / group);
      const int64_t oldest = pair.max_age == kNoMaxAge ? begin : std::max(begin, query - pair.max_age + 1);
      const int64_t newest = std::min(end, query - pair.min_age + 1);
      low[line] = static_cast<size_t>(std::min(oldest, end) - tile_begin);
      high[line] = static_cast<size_t>(std::max(newest, begin) - tile_begin);
      if (low[line] >= high[line]) low[line] = high[line] = std::min(low[line], high[line]);
    }
    size_t from = kTile;
    size_t to = 0;
    for (size_t line = 0; line < count; ++line) {
      if (low[line] == high[line]) continue;
      from = std::min(from, low[line]);
      to = std::max(to, high[line]);
    }
    if (from >= to) continue;
    from = from / 16 * 16;
    to = RoundUp16(to);

    PanelOperands score;
    score.a = buffers.q + row * buffers.q_dim;
    score.a_stride = buffers.q_dim;
    score.b = buffers.keys + from;
    score.b_stride = kTile;
    score.b_panel_stride = kPanelColumns;
    score.c = buffers.scores + from;
    score.c_stride = kTile;
    score.depth = buffers.q_dim;
    RowBlockProduct<PanelStore::kReplace>(count, (to - from) / kPanelColumns, score);

    for (size_t line = 0; line < count; ++line) {
      float* scores = buffers.scores + line * kTile;
      std::fill(scores + from, scores + std::max(from, low[line]), kMinusInfinity);
      std::fill(scores + std::max(from, high[line]), scores + to, kMinusInfinity);
      FoldRow(scores, from, to, buffers.maximum[row + line], buffers.sum[row + line],
              buffers.out + (row + line) * buffers.out_stride, buffers.out_stride);
    }

    PanelOperands output;
    output.a = buffers.scores + from;
    output.a_stride = kTile;
    output.b = buffers.values + from * buffers.out_stride;
    output.b_stride = buffers.out_stride;
    output.b_panel_stride = kPanelColumns;
    output.c = buffers.out + row * buffers.out_stride;
    output.c_stride = buffers.out_stride;
    output.depth = to - from;
    RowBlockProduct<PanelStore::kAdd>(count, buffers.out_stride / kPanelColumns, output);
  }
}

void AttendBlock(const AttentionShape& shape, const QueryBlock& block, std::span<const SegmentPair> pairs,
                 float* scratch) {
  const AttentionItem& item = *block.item;
  const KvView& view = item.view;
  const size_t group = shape.q_heads / view.kv_heads;
  BlockBuffers buffers(scratch, block.queries * group, view.k.head_dim, view.v.head_dim);

  // Scores are kept in base 2: log2(e) and the scale are folded into the queries once.
  const float scale = shape.score_scale * 1.44269504088896340736f;
  const std::vector<TransformKind> k_transforms(view.k.transforms.begin(), view.k.transforms.end());
  for (size_t row = 0; row < buffers.rows; ++row) {
    const size_t query = block.first_query + row / group;
    const float* from = item.q + query * item.q_stride + (block.head * group + row % group) * buffers.q_dim;
    std::memcpy(buffers.q + row * buffers.q_dim, from, buffers.q_dim * sizeof(float));
  }
  ApplyTransforms(k_transforms, buffers.q, buffers.rows, buffers.q_dim, buffers.q_dim);
  for (size_t place = 0; place < buffers.rows * buffers.q_dim; ++place) buffers.q[place] *= scale;
  std::fill_n(buffers.out, buffers.rows * buffers.out_stride, 0.0f);
  std::fill_n(buffers.maximum, buffers.rows, kMinusInfinity);
  std::fill_n(buffers.sum, buffers.rows, 0.0f);

  const int64_t oldest_query = item.first_token + static_cast<int64_t>(block.first_query);
  const int64_t newest_query = oldest_query + static_cast<int64_t>(block.queries) - 1;
  constexpr auto kTileTokens = static_cast<int64_t>(kTile);
  for (const SegmentPair& pair : pairs) {
    const int64_t visible_begin =
        pair.max_age == kNoMaxAge ? pair.begin : std::max(pair.begin, oldest_query - pair.max_age + 1);
    const int64_t visible_end = std::min(pair.end, newest_query - pair.min_age + 1);
    for (int64_t tile = visible_begin / kTileTokens * kTileTokens; tile < visible_end; tile += kTileTokens) {
      const int64_t begin = std::max(tile, pair.begin);
      const int64_t end = std::min(tile + kTileTokens, pair.end);
      DecodeTile(view, pair, block.head, tile, begin, end, buffers);
      FoldTile(pair, block, group, tile, begin, end, buffers);
    }
  }

  for (size_t row = 0; row < buffers.rows; ++row) {
    float* out = buffers.out + row * buffers.out_stride;
    const float inverse = buffers.sum[row] == 0.0f ? 0.0f : 1.0f / buffers.sum[row];
    for (size_t channel = 0; channel < buffers.out_dim; ++channel) out[channel] *= inverse;
  }
  InvertTransforms({view.v.transforms.begin(), view.v.transforms.end()}, buffers.out, buffers.rows, buffers.out_dim,
                   buffers.out_stride);
  for (size_t row = 0; row < buffers.rows; ++row) {
    const size_t query = block.first_query + row / group;
    std::memcpy(item.out + query * item.out_stride + (block.head * group + row % group) * buffers.out_dim,
                buffers.out + row * buffers.out_stride, buffers.out_dim * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(AttendBlock);

namespace {

// Rows of a query block. A tile of K and V is decoded once per block, which costs about as much as 16 rows of
// products; 768 rows keep that near 2 % and still give six tasks for a chunk of 512 tokens of 3 KV heads.
constexpr size_t kBlockRows = 768;

std::vector<SegmentPair> CommonRefinement(const KvView& view) {
  std::vector<SegmentPair> pairs;
  for (const Segment& k : view.k.segments) {
    for (const Segment& v : view.v.segments) {
      const SegmentPair pair{&k,
                             &v,
                             std::max(k.token_begin, v.token_begin),
                             std::min(k.token_end, v.token_end),
                             std::max(k.min_age, v.min_age),
                             std::min(k.max_age, v.max_age)};
      if (pair.begin < pair.end && pair.min_age < pair.max_age) pairs.push_back(pair);
    }
  }
  return pairs;
}

}  // namespace

void PrefillAttention(const AttentionShape& shape, std::span<const AttentionItem> items, ThreadPool& pool,
                      WorkerScratch& scratch) {
  std::vector<std::vector<SegmentPair>> pairs;
  std::vector<QueryBlock> blocks;
  size_t elems = 0;
  for (const AttentionItem& item : items) {
    KVANT_CHECK(item.view.kv_heads > 0 && shape.q_heads % item.view.kv_heads == 0);
    pairs.push_back(CommonRefinement(item.view));
    const size_t group = shape.q_heads / item.view.kv_heads;
    const size_t block_queries = std::max<size_t>(1, kBlockRows / group);
    for (size_t first = 0; first < item.tokens; first += block_queries) {
      const size_t queries = std::min(block_queries, item.tokens - first);
      elems = std::max(elems, BlockBuffers::Elems(queries * group, item.view.k.head_dim, item.view.v.head_dim));
      for (size_t head = 0; head < item.view.kv_heads; ++head) blocks.push_back({&item, head, first, queries});
    }
  }
  // Later queries see more: starting with them evens out the workers.
  std::stable_sort(blocks.begin(), blocks.end(), [](const QueryBlock& left, const QueryBlock& right) {
    return left.first_query > right.first_query;
  });
  scratch.Reserve(pool.threads(), elems);
  const auto attend = HWY_DYNAMIC_DISPATCH(AttendBlock);
  pool.For(blocks.size(), [&](size_t task, size_t worker) {
    const QueryBlock& block = blocks[task];
    attend(shape, block, pairs[static_cast<size_t>(block.item - items.data())], scratch.ForWorker(worker));
  });
}

}  // namespace kvant
#endif  // HWY_ONCE
