// Walsh-Hadamard butterflies and channel reordering, eight values at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/codec/transform.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "kvant/base/check.h"
#include "kvant/codec/eight-inl.h"
#include "kvant/codec/transform.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {

// Stages in the order 1, 2, 4, ..., n/2, then one product: the order is part of docs/format/transforms.md, so that all
// targets give the same bits. A stage reads pairs (i, i + half) and writes (a + b, a - b).
void HadamardRow(float* x, size_t size) {
  const F8 norm = Set8(static_cast<float>(1.0 / std::sqrt(static_cast<double>(size))));
  for (size_t index = 0; index < size; index += 8) Store8(Hadamard8(Load8(x + index)), x + index);
  for (size_t half = 8; half < size; half *= 2) {
    for (size_t block = 0; block < size; block += 2 * half) {
      for (size_t index = block; index < block + half; index += 8) {
        const F8 a = Load8(x + index);
        const F8 b = Load8(x + index + half);
        Store8(Add8(a, b), x + index);
        Store8(Sub8(a, b), x + index + half);
      }
    }
  }
  for (size_t index = 0; index < size; index += 8) Store8(Mul8(Load8(x + index), norm), x + index);
}

void HadamardRows(float* x, size_t rows, size_t head_dim, size_t stride, size_t block) {
  for (size_t row = 0; row < rows; ++row, x += stride) {
    for (size_t begin = 0; begin < head_dim; begin += block) HadamardRow(x + begin, block);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(HadamardRows);

namespace {

// out[2j] = x[j], out[2j + 1] = x[j + n/2], or back. A permutation; not worth vectors.
void InterleaveRows(float* x, size_t rows, size_t head_dim, size_t stride, bool inverse) {
  float copy[kMaxHeadDim];
  const size_t half = head_dim / 2;
  for (size_t row = 0; row < rows; ++row, x += stride) {
    std::memcpy(copy, x, head_dim * sizeof(float));
    for (size_t pair = 0; pair < half; ++pair) {
      if (inverse) {
        x[pair] = copy[2 * pair];
        x[pair + half] = copy[2 * pair + 1];
      } else {
        x[2 * pair] = copy[pair];
        x[2 * pair + 1] = copy[pair + half];
      }
    }
  }
}

void ApplyOne(TransformKind kind, bool inverse, float* x, size_t rows, size_t head_dim, size_t stride) {
  switch (kind) {
    case TransformKind::kHadamard:  // symmetric and orthonormal: its own inverse
      KVANT_CHECK(std::has_single_bit(head_dim) && head_dim >= 8);
      return HWY_DYNAMIC_DISPATCH(HadamardRows)(x, rows, head_dim, stride, head_dim);
    case TransformKind::kHadamard64:
      KVANT_CHECK(head_dim % 64 == 0);
      return HWY_DYNAMIC_DISPATCH(HadamardRows)(x, rows, head_dim, stride, 64);
    case TransformKind::kInterleave:
      KVANT_CHECK(head_dim % 2 == 0 && head_dim <= kMaxHeadDim);
      return InterleaveRows(x, rows, head_dim, stride, inverse);
  }
}

}  // namespace

void ApplyTransforms(const std::vector<TransformKind>& transforms, float* x, size_t rows, size_t head_dim,
                     size_t stride) {
  for (const TransformKind kind : transforms) ApplyOne(kind, false, x, rows, head_dim, stride);
}

void InvertTransforms(const std::vector<TransformKind>& transforms, float* x, size_t rows, size_t head_dim,
                      size_t stride) {
  for (size_t left = transforms.size(); left > 0; --left) {
    ApplyOne(transforms[left - 1], true, x, rows, head_dim, stride);
  }
}

}  // namespace kvant
#endif  // HWY_ONCE
