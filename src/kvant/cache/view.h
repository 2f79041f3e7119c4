// What attention sees of a cache: for one layer, K and V as lists of segments of one codec each. This header is its own
// target: attention includes nothing else of the cache, and no kernel sees a policy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kvant/codec/codec.h"
#include "kvant/codec/transform.h"

namespace kvant {

// Tokens of one page, and the alignment of attention's tiles: token t of every segment lies in page t / kPageTokens, so
// a tile never straddles two pages and its boundaries do not depend on how the tokens arrived.
inline constexpr size_t kPageTokens = 128;

inline constexpr int64_t kNoMaxAge = std::numeric_limits<int64_t>::max();

// Consecutive tokens [token_begin, token_end) stored with one codec.
//
// The query at token p sees token j of this segment iff min_age <= p - j < max_age. That one rule is causality
// (min_age 0), a window of exact recent tokens (the exact copy has ages [0, W), the coded copy [W, inf)) and a sliding
// window. Segments of one side never show the same token to the same query twice.
struct Segment {
  CodecSpec codec;
  int64_t token_begin = 0;
  int64_t token_end = 0;
  int64_t min_age = 0;
  int64_t max_age = kNoMaxAge;
  // Page of token t: pages[t / kPageTokens - first_page]. Layout: [kv_heads][kPageTokens][unit_bytes], or
  // [kPageTokens][unit_bytes] when one unit holds all heads of a token (kGroupVector).
  const std::byte* const* pages = nullptr;
  int64_t first_page = 0;
  size_t unit_bytes = 0;
};

struct SideView {
  std::span<const Segment> segments;
  size_t head_dim = 0;
  // Applied to the rows before they were stored. Attention applies K's to the queries and the inverse of V's to the
  // output, once per call.
  std::span<const TransformKind> transforms;
};

struct KvView {
  size_t kv_heads = 0;
  SideView k;
  SideView v;
};

// The units of `head` for tokens [token, token + count), which lie in one page of `segment`.
inline UnitRun RunOf(const Segment& segment, size_t kv_heads, size_t head_dim, size_t head, int64_t token,
                     size_t count) {
  const bool whole_vector = segment.codec.group == kGroupVector;
  const int64_t page = token / static_cast<int64_t>(kPageTokens);
  const size_t slot =
      static_cast<size_t>(token % static_cast<int64_t>(kPageTokens)) + (whole_vector ? 0 : head * kPageTokens);
  UnitRun run;
  run.bytes = segment.pages[page - segment.first_page] + slot * segment.unit_bytes;
  run.stride_bytes = segment.unit_bytes;
  run.units = count;
  run.unit_elems = whole_vector ? kv_heads * head_dim : head_dim;
  run.elem_begin = whole_vector ? head * head_dim : 0;
  run.elems = head_dim;
  return run;
}

}  // namespace kvant
