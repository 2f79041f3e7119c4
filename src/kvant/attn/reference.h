// Attention as its definition reads, in double: what the fast kernels are tested against.
#pragma once

#include "kvant/attn/params.h"

namespace kvant::reference {

// softmax(score_scale * Q K^T) V for every query over the tokens that the view shows it. A query that sees nothing gets
// zeros. Cost: O(tokens * visible * head_dim) double operations, one decode per query and token.
void Attention(const AttentionShape& shape, const AttentionItem& item);

}  // namespace kvant::reference
