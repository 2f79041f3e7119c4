// Attention of many queries at once over a cache in any mixture of formats.
#pragma once

#include <span>

#include "kvant/attn/params.h"
#include "kvant/base/parallel.h"
#include "kvant/tensor/worker_scratch.h"

namespace kvant {

// item.out = softmax(score_scale * q k^T) v per query, over the tokens that the view shows it; zeros if it shows none.
//
// Packed bytes are decoded tile by tile (kPageTokens tokens), once per block of queries; products and softmax are f32
// with an online maximum. A query's arithmetic depends only on its own visible tokens, in the order (K segment, V
// segment, tile), so results have the same bits for every chunk size and number of threads, and on every SIMD target
// with a fused multiply-add.
// Preconditions: q_heads % kv_heads == 0; head sizes are multiples of 8; rows of q and out do not overlap.
// Cost: 2 * (k.head_dim + v.head_dim) FLOP and one exponential per visible (query head, token) pair.
void PrefillAttention(const AttentionShape& shape, std::span<const AttentionItem> items, ThreadPool& pool,
                      WorkerScratch& scratch);

}  // namespace kvant
