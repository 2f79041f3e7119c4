// EncodeUnit: the fast twin of reference::EncodeUnit, eight values at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/codec/encode.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kvant/base/half.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/eight-inl.h"
#include "kvant/codec/layout.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {

using namespace codec_detail;

// Up to here no scale, minimum or value of any format is clamped: a range is at most 64000 < 65504. Everything else,
// NaN and infinity included, goes to the reference, which also counts what it had to change.
constexpr float kPlainMax = 32000.0f;

// NaN must not pass, and min/max instructions may drop it, so magnitudes are compared as integers: NaN is largest.
inline bool AllPlain(const float* x, size_t elems) {
  uint32_t most = 0;
  for (size_t index = 0; index < elems; ++index) {
    uint32_t bits;
    std::memcpy(&bits, x + index, sizeof(bits));
    most = std::max(most, bits & 0x7fffffffu);
  }
  return most <= std::bit_cast<uint32_t>(kPlainMax);
}

struct Range {
  float min;
  float max;
};

inline Range RangeOf(const float* x, size_t elems) {
  F8 min = Load8(x);
  F8 max = min;
  for (size_t index = 8; index < elems; index += 8) {
    const F8 v = Load8(x + index);
    min = Min8(min, v);
    max = Max8(max, v);
  }
  return {ReduceMin8(min), ReduceMax8(max)};
}

// The first element of largest magnitude, with its sign. Only a tie of both signs needs a search.
inline float SignedMaxOf(const float* x, size_t elems) {
  const Range range = RangeOf(x, elems);
  if (range.max > -range.min) return range.max;
  if (range.max < -range.min) return range.min;
  if (range.max == 0.0f) return 0.0f;
  size_t index = 0;
  while (std::fabs(x[index]) != range.max) ++index;
  return x[index];
}

// A zero of either sign is stored as +0.
inline uint16_t MetaHalf(float x) {
  const uint16_t bits = FloatToHalf(x);
  return (bits & 0x7fffu) == 0 ? uint16_t{0} : bits;
}

inline void Store16(uint16_t bits, uint8_t* out) { std::memcpy(out, &bits, sizeof(bits)); }

template <int B>
void FillCodes(uint64_t code, size_t elems, uint8_t* codes) {
  const uint64_t packed = PackEight<B>(code * kEveryByte);
  for (size_t index = 0; index < elems; index += 8) StoreBytes<B>(packed, codes + index / 8 * B);
}

template <int B>
void EncodeAffineGroup(const float* x, size_t elems, uint8_t* meta, uint8_t* codes) {
  constexpr float kTop = (1 << B) - 1;
  const Range range = RangeOf(x, elems);
  const uint16_t scale_bits = MetaHalf((range.max - range.min) / kTop);
  const uint16_t zero_bits = MetaHalf(range.min);
  Store16(scale_bits, meta);
  Store16(zero_bits, meta + 2);
  if (scale_bits == 0) return FillCodes<B>(0, elems, codes);
  const F8 scale = Set8(HalfToFloat(scale_bits));
  const F8 zero = Set8(HalfToFloat(zero_bits));
  const F8 top = Set8(kTop);
  const F8 none = Set8(0.0f);
  for (size_t index = 0; index < elems; index += 8) {
    const F8 steps = Div8(Sub8(Load8(x + index), zero), scale);
    const I8 code = Nearest8(Min8(Max8(steps, none), top));
    StoreBytes<B>(PackEight<B>(BytesOf(code)), codes + index / 8 * B);
  }
}

template <int B>
void EncodeAbsmaxGroup(bool symmetric, const float* x, size_t elems, uint8_t* meta, uint8_t* codes) {
  constexpr int kHalf = 1 << (B - 1);
  const float extreme = SignedMaxOf(x, elems);
  const float unrounded =
      symmetric ? std::fabs(extreme) / static_cast<float>(kHalf - 1) : extreme / static_cast<float>(-kHalf);
  const uint16_t scale_bits = MetaHalf(unrounded);
  Store16(scale_bits, meta);
  if (scale_bits == 0) return FillCodes<B>(kHalf, elems, codes);
  const F8 scale = Set8(HalfToFloat(scale_bits));
  const F8 lowest = Set8(static_cast<float>(symmetric ? 1 - kHalf : -kHalf));
  const F8 highest = Set8(static_cast<float>(kHalf - 1));
  for (size_t index = 0; index < elems; index += 8) {
    const F8 level = Min8(Max8(Div8(Load8(x + index), scale), lowest), highest);
    StoreBytes<B>(PackEight<B>(BytesOf(AddInt8(Nearest8(level), kHalf))), codes + index / 8 * B);
  }
}

template <int B>
void EncodeGrid(const CodecSpec& spec, const float* x, size_t elems, uint8_t* out) {
  const GridLayout layout = LayoutOf(spec, elems);
  uint8_t* const codes = out + layout.codes_offset;
  out[layout.unit_bytes - 1] = 0;  // the padding byte, if there is one
  for (size_t group = 0; group < layout.groups; ++group) {
    const size_t begin = group * layout.group_elems;
    const size_t count = std::min(layout.group_elems, elems - begin);
    uint8_t* const meta = out + group * layout.meta_bytes;
    if (spec.family == CodecFamily::kAffine) {
      EncodeAffineGroup<B>(x + begin, count, meta, codes + begin / 8 * B);
    } else {
      EncodeAbsmaxGroup<B>(spec.symmetric, x + begin, count, meta, codes + begin / 8 * B);
    }
  }
}

// ---- ggml blocks: the low nibbles of 16 bytes are values 0-15, the high ones 16-31 ----------------------------------

// The four eights of a block, one code a byte.
struct BlockCodes {
  uint64_t eight[4];
};

inline void StoreNibbles(const BlockCodes& codes, uint8_t* qs) {
  constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0fu;
  for (int half = 0; half < 2; ++half) {
    StoreBytes<8>((codes.eight[half] & kNibbles) | ((codes.eight[half + 2] & kNibbles) << 4), qs + 8 * half);
  }
}

inline void StoreFifthBits(const BlockCodes& codes, uint8_t* qh) {
  for (int eight = 0; eight < 4; ++eight) {
    qh[eight] = static_cast<uint8_t>(PackEight<1>((codes.eight[eight] >> 4) & kEveryByte));
  }
}

template <int B>
BlockCodes SignedMaxCodes(const float* x, uint16_t* scale_bits) {
  constexpr float kHalf = 1 << (B - 1);
  const float scale = SignedMaxOf(x, kGgmlBlock) / -kHalf;
  *scale_bits = FloatToHalf(scale);
  const F8 reciprocal = Set8(GgmlReciprocal(scale));
  BlockCodes codes;
  for (int eight = 0; eight < 4; ++eight) {
    const F8 level = Add8(Mul8(Load8(x + 8 * eight), reciprocal), Set8(kHalf + 0.5f));
    codes.eight[eight] = BytesOf(Trunc8(Min8(Max8(level, Set8(0.0f)), Set8(2 * kHalf - 1))));
  }
  return codes;
}

template <int B>
BlockCodes MinMaxCodes(const float* x, uint16_t* scale_bits, uint16_t* minimum_bits) {
  constexpr float kTop = (1 << B) - 1;
  Range range = RangeOf(x, kGgmlBlock);
  // The sign of the first zero, as ggml's loop keeps it; a vector minimum may return either.
  if (range.min == 0.0f) range.min = *std::find(x, x + kGgmlBlock, 0.0f);
  const float scale = (range.max - range.min) / kTop + 0.0f;  // + 0: zeros of both signs give -0 - 0
  *scale_bits = FloatToHalf(scale);
  *minimum_bits = FloatToHalf(range.min);
  const F8 reciprocal = Set8(GgmlReciprocal(scale));
  BlockCodes codes;
  for (int eight = 0; eight < 4; ++eight) {
    const F8 steps = Mul8(Sub8(Load8(x + 8 * eight), Set8(range.min)), reciprocal);
    codes.eight[eight] = BytesOf(Trunc8(Min8(Max8(Add8(steps, Set8(0.5f)), Set8(0.0f)), Set8(kTop))));
  }
  return codes;
}

inline BlockQ4_0 EncodeBlock(const float* x, BlockQ4_0 block) {
  StoreNibbles(SignedMaxCodes<4>(x, &block.d), block.qs);
  return block;
}
inline BlockQ4_1 EncodeBlock(const float* x, BlockQ4_1 block) {
  StoreNibbles(MinMaxCodes<4>(x, &block.d, &block.m), block.qs);
  return block;
}
inline BlockQ5_0 EncodeBlock(const float* x, BlockQ5_0 block) {
  const BlockCodes codes = SignedMaxCodes<5>(x, &block.d);
  StoreNibbles(codes, block.qs);
  StoreFifthBits(codes, block.qh);
  return block;
}
inline BlockQ5_1 EncodeBlock(const float* x, BlockQ5_1 block) {
  const BlockCodes codes = MinMaxCodes<5>(x, &block.d, &block.m);
  StoreNibbles(codes, block.qs);
  StoreFifthBits(codes, block.qh);
  return block;
}
inline BlockQ8_0 EncodeBlock(const float* x, BlockQ8_0 block) {
  const Range range = RangeOf(x, kGgmlBlock);
  const float scale = std::max(std::fabs(range.max), std::fabs(range.min)) / 127.0f;
  block.d = FloatToHalf(scale);
  const F8 reciprocal = Set8(GgmlReciprocal(scale));
  for (int eight = 0; eight < 4; ++eight) {
    const F8 level = Mul8(Load8(x + 8 * eight), reciprocal);
    const I8 code = Round8(Min8(Max8(level, Set8(-127.0f)), Set8(127.0f)));
    StoreBytes<8>(SignedBytesOf(code), reinterpret_cast<uint8_t*>(block.qs) + 8 * eight);
  }
  return block;
}

template <class Block>
void EncodeBlocks(const float* x, size_t elems, uint8_t* out) {
  for (size_t begin = 0; begin < elems; begin += kGgmlBlock, out += sizeof(Block)) {
    const Block block = EncodeBlock(x + begin, Block{});
    std::memcpy(out, &block, sizeof(block));
  }
}

// ---- dict3 ----------------------------------------------------------------------------------------------------------

// Squared error of up to four eights under one scale, summed in the order that docs/format/dict3.md fixes.
inline float Dict3Error(const F8* eights, size_t count, float scale) {
  F8 squares[4] = {Set8(0.0f), Set8(0.0f), Set8(0.0f), Set8(0.0f)};
  for (size_t eight = 0; eight < count; ++eight) {
    F8 decoded = Set8(kLloyd8Centroids[0] * scale);
    for (int cell = 0; cell < 7; ++cell) {
      const F8 threshold = Set8(kLloyd8Thresholds[cell] * scale);
      decoded = SelectGe8(eights[eight], threshold, Set8(kLloyd8Centroids[cell + 1] * scale), decoded);
    }
    const F8 error = Sub8(eights[eight], decoded);
    squares[eight] = Mul8(error, error);
  }
  return TreeSum8(Add8(Add8(squares[0], squares[2]), Add8(squares[1], squares[3])));
}

// The best index lies where c_max * scale >= mean |x| and c_min * scale <= rms: below, every code's least-squares scale
// is larger than the scale; above, smaller; so the error only grows outwards (one entry of margin for rounding).
inline int Dict3Index(const F8* eights, size_t count) {
  F8 absolute = Set8(0.0f);
  F8 square = Set8(0.0f);
  for (size_t eight = 0; eight < count; ++eight) {
    absolute = Add8(absolute, Abs8(eights[eight]));
    square = Add8(square, Mul8(eights[eight], eights[eight]));
  }
  const float values = static_cast<float>(8 * count);
  const float lowest = TreeSum8(absolute) / values / kLloyd8Centroids[7];
  const float highest = std::sqrt(TreeSum8(square) / values) / kLloyd8Centroids[4];
  const float* const scales = kDict3Table.scales;
  const long below = std::upper_bound(scales, scales + kDict3Scales, lowest) - scales - 2;
  const long above = std::lower_bound(scales, scales + kDict3Scales, highest) - scales + 1;
  int best = 0;
  float best_error = Dict3Error(eights, count, 0.0f);
  for (long index = std::max(below, 1L); index <= std::min<long>(above, kDict3Scales - 1); ++index) {
    const float error = Dict3Error(eights, count, scales[index]);
    if (error < best_error) {
      best_error = error;
      best = static_cast<int>(index);
    }
  }
  return best;
}

inline void EncodeDict3(const float* x, size_t elems, uint8_t* out) {
  uint8_t* codes = out + Dict3CodesOffset(elems);
  std::memset(out, 0, Dict3CodesOffset(elems));
  for (size_t group = 0; group < Dict3Groups(elems); ++group) {
    const size_t begin = group * kDict3Group;
    const size_t eights = std::min(kDict3Group, elems - begin) / 8;
    F8 values[4];
    for (size_t eight = 0; eight < eights; ++eight) values[eight] = Load8(x + begin + 8 * eight);
    const int index = Dict3Index(values, eights);
    const size_t bit = group * 6;
    const uint32_t shifted = static_cast<uint32_t>(index) << (bit % 8);
    out[bit / 8] |= static_cast<uint8_t>(shifted);
    if (shifted > 0xff) out[bit / 8 + 1] |= static_cast<uint8_t>(shifted >> 8);
    for (size_t eight = 0; eight < eights; ++eight, codes += 3) {
      F8 code = Set8(index == 0 ? 4.0f : 0.0f);
      for (int cell = 0; cell < 7 && index != 0; ++cell) {
        const F8 threshold = Set8(kLloyd8Thresholds[cell] * kDict3Table.scales[index]);
        code = Add8(code, SelectGe8(values[eight], threshold, Set8(1.0f), Set8(0.0f)));
      }
      StoreBytes<3>(PackEight<3>(BytesOf(Trunc8(code))), codes);
    }
  }
}

// ---- one unit -------------------------------------------------------------------------------------------------------

inline void EncodeGridOfBits(const CodecSpec& spec, const float* x, size_t elems, uint8_t* out) {
  switch (spec.bits) {
    case 1:
      return EncodeGrid<1>(spec, x, elems, out);
    case 2:
      return EncodeGrid<2>(spec, x, elems, out);
    case 3:
      return EncodeGrid<3>(spec, x, elems, out);
    case 4:
      return EncodeGrid<4>(spec, x, elems, out);
    case 5:
      return EncodeGrid<5>(spec, x, elems, out);
    case 6:
      return EncodeGrid<6>(spec, x, elems, out);
    case 7:
      return EncodeGrid<7>(spec, x, elems, out);
    default:
      return EncodeGrid<8>(spec, x, elems, out);
  }
}

// False if the unit has values that only the reference handles; nothing is written then.
bool TryEncodeUnit(const CodecSpec& spec, const float* x, size_t elems, uint8_t* out) {
  if (!AllPlain(x, elems)) return false;
  switch (spec.family) {
    case CodecFamily::kF32:
      std::memcpy(out, x, elems * sizeof(float));
      return true;
    case CodecFamily::kF16:
      for (size_t index = 0; index < elems; index += 8) StoreHalf8(Load8(x + index), out + 2 * index);
      return true;
    case CodecFamily::kBf16:
      for (size_t index = 0; index < elems; ++index) Store16(FloatToBfloat16(x[index]), out + 2 * index);
      return true;
    case CodecFamily::kAffine:
    case CodecFamily::kAbsmax:
      EncodeGridOfBits(spec, x, elems, out);
      return true;
    case CodecFamily::kQ4_0:
      EncodeBlocks<BlockQ4_0>(x, elems, out);
      return true;
    case CodecFamily::kQ4_1:
      EncodeBlocks<BlockQ4_1>(x, elems, out);
      return true;
    case CodecFamily::kQ5_0:
      EncodeBlocks<BlockQ5_0>(x, elems, out);
      return true;
    case CodecFamily::kQ5_1:
      EncodeBlocks<BlockQ5_1>(x, elems, out);
      return true;
    case CodecFamily::kQ8_0:
      EncodeBlocks<BlockQ8_0>(x, elems, out);
      return true;
    case CodecFamily::kDict3:
      EncodeDict3(x, elems, out);
      return true;
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(TryEncodeUnit);

void EncodeUnit(const CodecSpec& spec, const float* x, size_t elems, std::byte* out, EncodeStats* stats) {
  if (!HWY_DYNAMIC_DISPATCH(TryEncodeUnit)(spec, x, elems, reinterpret_cast<uint8_t*>(out))) {
    return reference::EncodeUnit(spec, x, elems, out, stats);
  }
  if (stats != nullptr) stats->values += elems;
}

}  // namespace kvant
#endif  // HWY_ONCE
