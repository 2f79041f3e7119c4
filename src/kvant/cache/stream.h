// One side (K or V) of one layer of one sequence: rows go in, encoded pages and segments come out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvant/base/parallel.h"
#include "kvant/base/sha256.h"
#include "kvant/cache/geometry.h"
#include "kvant/cache/policy.h"
#include "kvant/cache/view.h"
#include "kvant/tensor/aligned_buffer.h"

namespace kvant {

// Pages of one codec for tokens [begin, end).
class PagedRows {
 public:
  PagedRows(const CodecSpec& codec, size_t kv_heads, size_t head_dim);

  // Extends to `token_end`, allocating pages. A store that is still empty starts at `token_begin`.
  void Extend(int64_t token_begin, int64_t token_end);
  // Forgets tokens before `token_begin` and frees pages that hold no others.
  void DropBefore(int64_t token_begin);

  // Encodes the kv_heads * head_dim values of one token (which must be inside). Different tokens may be written from
  // different threads.
  void Write(int64_t token, const float* row, EncodeStats* stats);
  // Decodes one token's row: [kv_heads][head_dim].
  void Read(int64_t token, float* row) const;

  Segment View(int64_t min_age, int64_t max_age) const;
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  uint64_t bytes() const { return static_cast<uint64_t>(end_ - begin_) * units_ * unit_bytes_; }
  void HashInto(Sha256& sha) const;

 private:
  std::byte* UnitOf(int64_t token, size_t unit) const;

  CodecSpec codec_;
  size_t unit_elems_;
  size_t units_;  // per token
  size_t unit_bytes_;
  int64_t begin_ = 0;
  int64_t end_ = 0;
  int64_t first_page_ = 0;
  std::vector<AlignedBuffer<std::byte>> pages_;
  std::vector<const std::byte*> page_pointers_;
};

class KvStream {
 public:
  // The policy must be supported (cache/geometry.h).
  KvStream(const StreamPolicy& policy, size_t kv_heads, size_t head_dim);

  // Stores `tokens` rows of [kv_heads][head_dim] values, rows `stride` apart, as the next tokens. What the queries of
  // these tokens need is then visible: the coded copy of everything older than the window of the oldest of them, and
  // exact copies from that window on. Encoding is per token, so bytes do not depend on the chunk or the threads.
  void Append(const float* rows, size_t stride, size_t tokens, ThreadPool& pool);
  // After the attention of the appended tokens: exact copies older than the window are dropped.
  void Settle();

  int64_t tokens() const { return tokens_; }
  SideView View() const { return {segments_, head_dim_, policy_.format.transforms}; }
  StreamBytes Bytes() const;
  const EncodeStats& stats() const { return stats_; }
  void HashInto(Sha256& sha) const;

 private:
  void RebuildSegments();

  StreamPolicy policy_;
  size_t kv_heads_;
  size_t head_dim_;
  int64_t tokens_ = 0;
  PagedRows sinks_;
  PagedRows window_;
  PagedRows coded_;
  std::vector<Segment> segments_;
  EncodeStats stats_;
  AlignedBuffer<float> transformed_;
};

}  // namespace kvant
