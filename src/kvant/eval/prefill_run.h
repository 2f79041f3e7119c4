// One arm over one span: tokens go through the model in chunks, the final hidden states of the scored tokens stay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/cache/geometry.h"
#include "kvant/cache/policy.h"
#include "kvant/eval/span.h"
#include "kvant/model/transformer.h"
#include "kvant/tensor/aligned_buffer.h"

namespace kvant {

inline constexpr size_t kDefaultChunk = 512;

// Called after every chunk with the tokens done so far; returning false stops the run.
using ChunkCallback = std::function<bool(size_t tokens_done)>;

struct PrefillRun {
  AlignedBuffer<float> hidden;  // [scored][hidden_size], after the last norm
  size_t scored = 0;
  CacheBytes bytes;  // stored when the last token is in
  EncodeStats stats;
  std::string cache_hash;  // SHA-256 of all stored bytes
  // Rows that the queries of the scored tokens read, over both sides and all layers: exact (window, sinks, and all of a
  // side in f32), and those that went through the policy's codec.
  uint64_t rows_exact = 0;
  uint64_t rows_quantized = 0;
  double seconds = 0;  // of the forward pass alone
};

// Refuses unsupported policies and ids outside the vocabulary by name before memory is allocated, and a span without
// scored tokens. Bits depend neither on the chunk nor on the threads. Memory: the cache and one chunk's activations.
Result<PrefillRun> RunPrefill(Transformer& transformer, const Policy& policy, const SpanTokens& span, size_t chunk,
                              const ChunkCallback& on_chunk = nullptr);

}  // namespace kvant
