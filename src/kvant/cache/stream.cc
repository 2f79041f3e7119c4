#include "kvant/cache/stream.h"

#include <algorithm>
#include <cstring>

#include "kvant/base/check.h"

namespace kvant {
namespace {
constexpr auto kPage = static_cast<int64_t>(kPageTokens);
// Tokens that one task transforms and encodes.
constexpr size_t kTaskTokens = 32;
}  // namespace

PagedRows::PagedRows(const CodecSpec& codec, size_t kv_heads, size_t head_dim)
    : codec_(codec),
      unit_elems_(UnitElems(codec, kv_heads, head_dim)),
      units_(kv_heads * head_dim / unit_elems_),
      unit_bytes_(UnitBytes(codec, unit_elems_)) {}

void PagedRows::Extend(int64_t token_begin, int64_t token_end) {
  if (begin_ == end_) {
    begin_ = end_ = token_begin;
    first_page_ = token_begin / kPage;
    pages_.clear();
    page_pointers_.clear();
  }
  KVANT_CHECK(token_end >= end_);
  end_ = token_end;
  if (begin_ == end_) return;
  while (first_page_ + static_cast<int64_t>(pages_.size()) <= (end_ - 1) / kPage) {
    pages_.emplace_back(kPageTokens * units_ * unit_bytes_);
    page_pointers_.push_back(pages_.back().data());
  }
}

void PagedRows::DropBefore(int64_t token_begin) {
  if (token_begin <= begin_) return;
  begin_ = std::min(token_begin, end_);
  const int64_t keep_from = begin_ == end_ ? first_page_ + static_cast<int64_t>(pages_.size()) : begin_ / kPage;
  const auto drop = static_cast<ptrdiff_t>(keep_from - first_page_);
  pages_.erase(pages_.begin(), pages_.begin() + drop);
  page_pointers_.erase(page_pointers_.begin(), page_pointers_.begin() + drop);
  first_page_ = keep_from;
}

std::byte* PagedRows::UnitOf(int64_t token, size_t unit) const {
  KVANT_DCHECK(token >= begin_ && token < end_);
  const std::byte* page = page_pointers_[static_cast<size_t>(token / kPage - first_page_)];
  const size_t slot = unit * kPageTokens + static_cast<size_t>(token % kPage);
  return const_cast<std::byte*>(page) + slot * unit_bytes_;
}

void PagedRows::Write(int64_t token, const float* row, EncodeStats* stats) {
  for (size_t unit = 0; unit < units_; ++unit) {
    EncodeUnit(codec_, row + unit * unit_elems_, unit_elems_, UnitOf(token, unit), stats);
  }
}

void PagedRows::Read(int64_t token, float* row) const {
  for (size_t unit = 0; unit < units_; ++unit) {
    const UnitRun run{UnitOf(token, unit), unit_bytes_, 1, unit_elems_, 0, unit_elems_};
    DecodeUnits(codec_, run, row + unit * unit_elems_, unit_elems_);
  }
}

Segment PagedRows::View(int64_t min_age, int64_t max_age) const {
  return {codec_, begin_, end_, min_age, max_age, page_pointers_.data(), first_page_, unit_bytes_};
}

void PagedRows::HashInto(Sha256& sha) const {
  for (int64_t token = begin_; token < end_; ++token) {
    for (size_t unit = 0; unit < units_; ++unit) sha.Update(std::span(UnitOf(token, unit), unit_bytes_));
  }
}

KvStream::KvStream(const StreamPolicy& policy, size_t kv_heads, size_t head_dim)
    : policy_(policy),
      kv_heads_(kv_heads),
      head_dim_(head_dim),
      sinks_(policy.exact, kv_heads, head_dim),
      window_(policy.exact, kv_heads, head_dim),
      coded_(policy.format.codec, kv_heads, head_dim) {}

void KvStream::Append(const float* rows, size_t stride, size_t tokens, ThreadPool& pool) {
  const size_t width = kv_heads_ * head_dim_;
  const auto sink_end = static_cast<int64_t>(policy_.sinks);
  const auto window = static_cast<int64_t>(policy_.window);
  const int64_t begin = tokens_;
  const int64_t end = begin + static_cast<int64_t>(tokens);

  // The newest query needs the coded form of everything that is `window` tokens old or older.
  const int64_t coded_begin = std::max(sink_end, coded_.end());
  const int64_t coded_end = std::max(coded_begin, end - window);
  sinks_.Extend(0, std::min(end, std::max(sink_end, sinks_.end())));
  if (window > 0 && end > sink_end) window_.Extend(std::max(begin, sink_end), end);
  if (coded_end > coded_begin) coded_.Extend(coded_begin, coded_end);

  transformed_.Reserve(tokens * width);
  pool.For((tokens + kTaskTokens - 1) / kTaskTokens, [&](size_t task, size_t) {
    const size_t first = task * kTaskTokens;
    for (size_t index = first; index < std::min(tokens, first + kTaskTokens); ++index) {
      float* row = &transformed_[index * width];
      std::memcpy(row, rows + index * stride, width * sizeof(float));
      ApplyTransforms(policy_.format.transforms, row, kv_heads_, head_dim_, head_dim_);
      const int64_t token = begin + static_cast<int64_t>(index);
      if (token < sink_end) {
        sinks_.Write(token, row, nullptr);
      } else if (window > 0) {
        window_.Write(token, row, nullptr);
      }
    }
  });

  // A token that leaves the window is coded from the window's copy, so that its bytes do not depend on the chunk.
  const auto coded_tokens = static_cast<size_t>(coded_end - coded_begin);
  const size_t tasks = (coded_tokens + kTaskTokens - 1) / kTaskTokens;
  std::vector<EncodeStats> stats(tasks);
  pool.For(tasks, [&](size_t task, size_t) {
    std::vector<float> from_window(window > 0 ? width : 0);
    const size_t first = task * kTaskTokens;
    for (size_t index = first; index < std::min(coded_tokens, first + kTaskTokens); ++index) {
      const int64_t token = coded_begin + static_cast<int64_t>(index);
      const float* row = from_window.data();
      if (window > 0) {
        window_.Read(token, from_window.data());
      } else {
        row = &transformed_[static_cast<size_t>(token - begin) * width];
      }
      coded_.Write(token, row, &stats[task]);
    }
  });
  for (const EncodeStats& part : stats) {
    stats_.values += part.values;
    stats_.saturated += part.saturated;
    stats_.non_finite += part.non_finite;
  }
  tokens_ = end;
  RebuildSegments();
}

void KvStream::Settle() {
  window_.DropBefore(tokens_ - static_cast<int64_t>(policy_.window));
  RebuildSegments();
}

void KvStream::RebuildSegments() {
  const auto window = static_cast<int64_t>(policy_.window);
  segments_.clear();
  if (sinks_.end() > sinks_.begin()) segments_.push_back(sinks_.View(0, kNoMaxAge));
  if (coded_.end() > coded_.begin()) segments_.push_back(coded_.View(window, kNoMaxAge));
  if (window_.end() > window_.begin()) segments_.push_back(window_.View(0, window));
}

StreamBytes KvStream::Bytes() const {
  StreamBytes bytes;
  bytes.coded = coded_.bytes();
  bytes.window = window_.bytes();
  bytes.sinks = sinks_.bytes();
  bytes.values = static_cast<uint64_t>(tokens_) * kv_heads_ * head_dim_;
  return bytes;
}

void KvStream::HashInto(Sha256& sha) const {
  sinks_.HashInto(sha);
  coded_.HashInto(sha);
  window_.HashInto(sha);
}

}  // namespace kvant
