// Invertible steps before a codec. They act on one head vector and preserve inner products, so attention rotates the
// query once instead of every key, and rotates the output of rotated values back once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/codec/codec.h"

namespace kvant {

enum class TransformKind : uint8_t {
  kHadamard,  // "had": orthonormal Walsh-Hadamard over head_dim (a power of two), H[i][j] = (-1)^popcount(i&j)/sqrt(n)
  kHadamard64,  // "had64": the same on consecutive blocks of 64 (head_dim % 64 == 0); llama.cpp's choice for values
  kInterleave,  // channel order of rotary pairs as in llama.cpp: out[2j] = x[j], out[2j+1] = x[j + n/2]; a policy's
                // order=interleaved, never part of a format's text
};

// Format text is transforms and codec joined by '+': "had+q4_0".
struct Format {
  std::vector<TransformKind> transforms;  // applied in order before encoding
  CodecSpec codec;

  bool operator==(const Format&) const = default;
};

std::string ToText(const Format& format);
// Errors carry the character offset within `text`.
Result<Format> ParseFormat(std::string_view text);

Status Supports(const Format& format, size_t kv_heads, size_t head_dim);

// In place on `rows` vectors of head_dim values, `stride` apart; values between rows are not touched. SIMD, the same
// bits on every target (docs/format/transforms.md fixes the order of the additions). Invert undoes Apply up to
// rounding.
void ApplyTransforms(const std::vector<TransformKind>& transforms, float* x, size_t rows, size_t head_dim,
                     size_t stride);
void InvertTransforms(const std::vector<TransformKind>& transforms, float* x, size_t rows, size_t head_dim,
                      size_t stride);

}  // namespace kvant
