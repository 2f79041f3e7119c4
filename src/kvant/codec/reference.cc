// The formats as docs/format/ defines them, one value at a time. Written for reading: no SIMD, no shared arithmetic
// with the fast code, bits are set one by one.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "kvant/base/check.h"
#include "kvant/base/half.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/layout.h"

namespace kvant::reference {
namespace {

using namespace codec_detail;

constexpr float kBfloat16Max = 0x1.fep+127f;

// "Step 0" of every page: what broken input counts as, limit being the largest value of the format.
float Repaired(float x, float limit) {
  if (std::isnan(x)) return 0.0f;
  return std::isinf(x) ? std::copysign(limit, x) : x;
}

struct HalfField {
  uint16_t bits;
  float value;
  bool clamped;
};

// A half that is never infinite. -0 is stored as +0, so that equal groups have equal bytes.
HalfField ToHalf(float x) {
  const bool clamped = std::fabs(x) > kHalfMax;
  uint16_t bits = FloatToHalf(std::clamp(x, -kHalfMax, kHalfMax));
  if ((bits & 0x7fffu) == 0) bits = 0;
  return {bits, HalfToFloat(bits), clamped};
}

void SetBits(std::byte* stream, size_t first_bit, int bits, uint32_t code) {
  for (int bit = 0; bit < bits; ++bit) {
    const size_t at = first_bit + static_cast<size_t>(bit);
    if ((code >> bit) & 1u) stream[at / 8] |= static_cast<std::byte>(1u << (at % 8));
  }
}

uint32_t GetBits(const std::byte* stream, size_t first_bit, int bits) {
  uint32_t code = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const size_t at = first_bit + static_cast<size_t>(bit);
    code |= (static_cast<uint32_t>(stream[at / 8] >> (at % 8)) & 1u) << bit;
  }
  return code;
}

void Store16(std::byte* out, uint16_t bits) { std::memcpy(out, &bits, sizeof(bits)); }
float LoadHalf(const std::byte* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return HalfToFloat(bits);
}

// In a group whose scale or minimum was clamped, every finite value outside of what codes can reach is counted.
void CountSaturated(std::span<const float> original, float end, float other_end, EncodeStats& stats) {
  for (const float x : original) {
    if (std::isfinite(x) && (x < std::min(end, other_end) || x > std::max(end, other_end))) ++stats.saturated;
  }
}

// ---- affine, absmax -------------------------------------------------------------------------------------------------

void EncodeAffineGroup(int bits, std::span<const float> x, std::span<const float> original, std::byte* meta,
                       std::byte* codes, size_t first_bit, EncodeStats& stats) {
  const float top = static_cast<float>((1 << bits) - 1);
  const auto [min, max] = std::minmax_element(x.begin(), x.end());
  const HalfField scale = ToHalf((*max - *min) / top);
  const HalfField zero = ToHalf(*min);
  Store16(meta, scale.bits);
  Store16(meta + 2, zero.bits);
  if (scale.clamped || zero.clamped) CountSaturated(original, zero.value, top * scale.value + zero.value, stats);
  if (scale.value == 0.0f) return;  // all codes are 0
  for (size_t index = 0; index < x.size(); ++index) {
    const float steps = std::clamp((x[index] - zero.value) / scale.value, 0.0f, top);
    const uint32_t code = static_cast<uint32_t>(std::nearbyint(steps));  // half to even
    SetBits(codes, first_bit + index * static_cast<size_t>(bits), bits, code);
  }
}

// The element of largest magnitude, the first one if several are as large; +0 if all are zero.
float SignedMax(std::span<const float> x) {
  float extreme = 0.0f;
  for (const float value : x) {
    if (std::fabs(value) > std::fabs(extreme)) extreme = value;
  }
  return extreme;
}

void EncodeAbsmaxGroup(const CodecSpec& spec, std::span<const float> x, std::span<const float> original,
                       std::byte* meta, std::byte* codes, size_t first_bit, EncodeStats& stats) {
  const float half = static_cast<float>(1 << (spec.bits - 1));
  const float extreme = SignedMax(x);
  const HalfField scale = ToHalf(spec.symmetric ? std::fabs(extreme) / (half - 1) : extreme / -half);
  const float lowest = spec.symmetric ? 1 - half : -half;
  Store16(meta, scale.bits);
  if (scale.clamped) CountSaturated(original, lowest * scale.value, (half - 1) * scale.value, stats);
  for (size_t index = 0; index < x.size(); ++index) {
    float level = 0.0f;
    if (scale.value != 0.0f) level = std::nearbyint(std::clamp(x[index] / scale.value, lowest, half - 1));
    SetBits(codes, first_bit + index * static_cast<size_t>(spec.bits), spec.bits, static_cast<uint32_t>(level + half));
  }
}

void EncodeGrid(const CodecSpec& spec, std::span<const float> x, std::span<const float> original, std::byte* out,
                EncodeStats& stats) {
  const GridLayout layout = LayoutOf(spec, x.size());
  for (size_t group = 0; group < layout.groups; ++group) {
    const size_t begin = group * layout.group_elems;
    const size_t count = std::min(layout.group_elems, x.size() - begin);
    std::byte* meta = out + group * layout.meta_bytes;
    std::byte* codes = out + layout.codes_offset;
    const size_t first_bit = begin * static_cast<size_t>(spec.bits);
    const auto values = x.subspan(begin, count);
    const auto raw = original.subspan(begin, count);
    if (spec.family == CodecFamily::kAffine) {
      EncodeAffineGroup(spec.bits, values, raw, meta, codes, first_bit, stats);
    } else {
      EncodeAbsmaxGroup(spec, values, raw, meta, codes, first_bit, stats);
    }
  }
}

void DecodeGrid(const CodecSpec& spec, const std::byte* bytes, std::span<float> out) {
  const GridLayout layout = LayoutOf(spec, out.size());
  for (size_t index = 0; index < out.size(); ++index) {
    const std::byte* meta = bytes + index / layout.group_elems * layout.meta_bytes;
    const uint32_t code = GetBits(bytes + layout.codes_offset, index * static_cast<size_t>(spec.bits), spec.bits);
    const float scale = LoadHalf(meta);
    if (spec.family == CodecFamily::kAffine) {
      const float product = static_cast<float>(code) * scale;
      out[index] = product + LoadHalf(meta + 2);
    } else {
      out[index] = static_cast<float>(static_cast<int>(code) - (1 << (spec.bits - 1))) * scale;
    }
  }
}

// ---- ggml blocks ----------------------------------------------------------------------------------------------------

// Like ToHalf but as ggml does it: -0 stays, and only what would become infinite is clamped.
HalfField ToGgmlHalf(float x) {
  const bool clamped = (FloatToHalf(x) & 0x7fffu) == 0x7c00u;
  return {FloatToHalf(clamped ? std::copysign(kHalfMax, x) : x), 0.0f, clamped};
}

float Trunc(float x, float top) { return std::trunc(std::clamp(x, 0.0f, top)); }

// Codes of the four nibble formats as a row of 32; the layouts differ, the arithmetic is one of two kinds.
struct GgmlCodes {
  HalfField scale;
  HalfField minimum;
  uint32_t codes[kGgmlBlock];
};

GgmlCodes SignedMaxCodes(int bits, std::span<const float> x, std::span<const float> original, EncodeStats& stats) {
  GgmlCodes block{};
  const float half = static_cast<float>(1 << (bits - 1));
  float scale = SignedMax(x) / -half;
  block.scale = ToGgmlHalf(scale);
  if (block.scale.clamped) {
    scale = std::copysign(kHalfMax, scale);
    CountSaturated(original, -half * scale, (half - 1) * scale, stats);
  }
  const float reciprocal = GgmlReciprocal(scale);
  for (size_t index = 0; index < kGgmlBlock; ++index) {
    const float level = x[index] * reciprocal;
    block.codes[index] = static_cast<uint32_t>(Trunc(level + (half + 0.5f), 2 * half - 1));
  }
  return block;
}

GgmlCodes MinMaxCodes(int bits, std::span<const float> x, std::span<const float> original, EncodeStats& stats) {
  GgmlCodes block{};
  const float top = static_cast<float>((1 << bits) - 1);
  float min = x[0];
  float max = x[0];
  for (const float value : x) {  // the first of equal zeros decides the sign of a zero minimum
    if (value < min) min = value;
    if (value > max) max = value;
  }
  float scale = (max - min) / top;
  block.scale = ToGgmlHalf(scale);
  block.minimum = ToGgmlHalf(min);
  if (block.scale.clamped || block.minimum.clamped) {
    if (block.scale.clamped) scale = kHalfMax;
    if (block.minimum.clamped) min = std::copysign(kHalfMax, min);
    CountSaturated(original, min, top * scale + min, stats);
  }
  const float reciprocal = GgmlReciprocal(scale);
  for (size_t index = 0; index < kGgmlBlock; ++index) {
    const float steps = (x[index] - min) * reciprocal;
    block.codes[index] = static_cast<uint32_t>(Trunc(steps + 0.5f, top));
  }
  return block;
}

void StoreNibbles(const GgmlCodes& block, uint8_t* qs) {
  for (size_t index = 0; index < 16; ++index) {
    qs[index] = static_cast<uint8_t>((block.codes[index] & 15u) | ((block.codes[index + 16] & 15u) << 4));
  }
}

void StoreFifthBits(const GgmlCodes& block, uint8_t* qh) {
  for (size_t index = 0; index < kGgmlBlock; ++index) {
    qh[index / 8] |= static_cast<uint8_t>((block.codes[index] >> 4) << (index % 8));
  }
}

BlockQ8_0 EncodeQ8Block(std::span<const float> x, std::span<const float> original, EncodeStats& stats) {
  BlockQ8_0 block{};
  float scale = std::fabs(SignedMax(x)) / 127.0f;
  const HalfField half = ToGgmlHalf(scale);
  block.d = half.bits;
  if (half.clamped) {
    scale = kHalfMax;
    CountSaturated(original, -127.0f * scale, 127.0f * scale, stats);
  }
  const float reciprocal = GgmlReciprocal(scale);
  for (size_t index = 0; index < kGgmlBlock; ++index) {
    const float level = x[index] * reciprocal;
    block.qs[index] = static_cast<int8_t>(std::round(std::clamp(level, -127.0f, 127.0f)));  // half away from zero
  }
  return block;
}

void EncodeGgmlBlock(CodecFamily family, std::span<const float> x, std::span<const float> original, std::byte* out,
                     EncodeStats& stats) {
  if (family == CodecFamily::kQ8_0) {
    const BlockQ8_0 block = EncodeQ8Block(x, original, stats);
    std::memcpy(out, &block, sizeof(block));
  } else if (family == CodecFamily::kQ4_0) {
    const GgmlCodes codes = SignedMaxCodes(4, x, original, stats);
    BlockQ4_0 block{codes.scale.bits, {}};
    StoreNibbles(codes, block.qs);
    std::memcpy(out, &block, sizeof(block));
  } else if (family == CodecFamily::kQ4_1) {
    const GgmlCodes codes = MinMaxCodes(4, x, original, stats);
    BlockQ4_1 block{codes.scale.bits, codes.minimum.bits, {}};
    StoreNibbles(codes, block.qs);
    std::memcpy(out, &block, sizeof(block));
  } else if (family == CodecFamily::kQ5_0) {
    const GgmlCodes codes = SignedMaxCodes(5, x, original, stats);
    BlockQ5_0 block{codes.scale.bits, {}, {}};
    StoreNibbles(codes, block.qs);
    StoreFifthBits(codes, block.qh);
    std::memcpy(out, &block, sizeof(block));
  } else {
    const GgmlCodes codes = MinMaxCodes(5, x, original, stats);
    BlockQ5_1 block{codes.scale.bits, codes.minimum.bits, {}, {}};
    StoreNibbles(codes, block.qs);
    StoreFifthBits(codes, block.qh);
    std::memcpy(out, &block, sizeof(block));
  }
}

void DecodeGgmlBlock(CodecFamily family, const std::byte* bytes, std::span<float> out) {
  const bool has_minimum = family == CodecFamily::kQ4_1 || family == CodecFamily::kQ5_1;
  const bool has_fifth = family == CodecFamily::kQ5_0 || family == CodecFamily::kQ5_1;
  const float scale = LoadHalf(bytes);
  const float minimum = has_minimum ? LoadHalf(bytes + 2) : 0.0f;
  const std::byte* fifth = bytes + (has_minimum ? 4 : 2);
  const std::byte* codes = fifth + (has_fifth ? 4 : 0);
  for (size_t index = 0; index < kGgmlBlock; ++index) {
    if (family == CodecFamily::kQ8_0) {
      out[index] = static_cast<float>(static_cast<int8_t>(codes[index])) * scale;
      continue;
    }
    int code = static_cast<int>(codes[index % 16] >> (index < 16 ? 0 : 4)) & 15;
    if (has_fifth) code |= static_cast<int>(GetBits(fifth, index, 1)) << 4;
    if (has_minimum) {
      const float product = static_cast<float>(code) * scale;
      out[index] = product + minimum;
    } else {
      out[index] = static_cast<float>(code - (has_fifth ? 16 : 8)) * scale;
    }
  }
}

// ---- dict3 ----------------------------------------------------------------------------------------------------------

int Dict3Code(float x, float scale) {
  int code = 0;
  for (const float threshold : kLloyd8Thresholds) code += x >= threshold * scale ? 1 : 0;
  return code;
}

// Sum of squared errors, added in the order of a halving tree: i += i + 16, then i + 8, 4, 2, 1. The order is part of
// the format because it decides near ties.
float Dict3Error(std::span<const float> x, float scale) {
  float squares[kDict3Group] = {};
  for (size_t index = 0; index < x.size(); ++index) {
    const float error = x[index] - kLloyd8Centroids[Dict3Code(x[index], scale)] * scale;
    squares[index] = error * error;
  }
  for (size_t half = kDict3Group / 2; half > 0; half /= 2) {
    for (size_t index = 0; index < half; ++index) squares[index] += squares[index + half];
  }
  return squares[0];
}

void EncodeDict3(std::span<const float> x, std::span<const float> original, std::byte* out, EncodeStats& stats) {
  std::byte* codes = out + Dict3CodesOffset(x.size());
  for (size_t group = 0; group < Dict3Groups(x.size()); ++group) {
    const size_t begin = group * kDict3Group;
    const size_t count = std::min(kDict3Group, x.size() - begin);
    float values[kDict3Group];
    for (size_t index = 0; index < count; ++index) {
      values[index] = std::clamp(x[begin + index], -kDict3Max, kDict3Max);
    }
    CountSaturated(original.subspan(begin, count), -kDict3Max, kDict3Max, stats);
    int best = 0;
    float best_error = Dict3Error({values, count}, 0.0f);
    for (int candidate = 1; candidate < kDict3Scales; ++candidate) {
      const float error = Dict3Error({values, count}, kDict3Table.scales[candidate]);
      if (error < best_error) {
        best_error = error;
        best = candidate;
      }
    }
    SetBits(out, group * 6, 6, static_cast<uint32_t>(best));
    for (size_t index = 0; index < count; ++index) {
      const int code = best == 0 ? 4 : Dict3Code(values[index], kDict3Table.scales[best]);
      SetBits(codes, (begin + index) * 3, 3, static_cast<uint32_t>(code));
    }
  }
}

}  // namespace

void EncodeUnit(const CodecSpec& spec, const float* x, size_t elems, std::byte* out, EncodeStats* stats) {
  KVANT_DCHECK(elems % 8 == 0);
  EncodeStats counts;
  counts.values = elems;
  const std::span<const float> original(x, elems);
  const float limit = spec.family == CodecFamily::kBf16 ? kBfloat16Max : kHalfMax;
  std::vector<float> repaired(elems);
  for (size_t index = 0; index < elems; ++index) {
    if (!std::isfinite(x[index])) ++counts.non_finite;
    repaired[index] = Repaired(x[index], limit);
  }
  std::memset(out, 0, UnitBytes(spec, elems));
  switch (spec.family) {
    case CodecFamily::kF32:
      std::memcpy(out, x, elems * sizeof(float));
      break;
    case CodecFamily::kF16:
      for (size_t index = 0; index < elems; ++index) {
        Store16(out + index * 2, FloatToHalf(std::clamp(repaired[index], -limit, limit)));
      }
      CountSaturated(original, -limit, limit, counts);
      break;
    case CodecFamily::kBf16:
      for (size_t index = 0; index < elems; ++index) {
        Store16(out + index * 2, FloatToBfloat16(std::clamp(repaired[index], -limit, limit)));
      }
      CountSaturated(original, -limit, limit, counts);
      break;
    case CodecFamily::kAffine:
    case CodecFamily::kAbsmax:
      EncodeGrid(spec, repaired, original, out, counts);
      break;
    case CodecFamily::kDict3:
      EncodeDict3(repaired, original, out, counts);
      break;
    default: {
      const size_t block_bytes = UnitBytes(spec, kGgmlBlock);
      for (size_t begin = 0; begin < elems; begin += kGgmlBlock) {
        EncodeGgmlBlock(spec.family, std::span<const float>(repaired).subspan(begin, kGgmlBlock),
                        original.subspan(begin, kGgmlBlock), out + begin / kGgmlBlock * block_bytes, counts);
      }
    }
  }
  if (stats == nullptr) return;
  stats->values += counts.values;
  stats->saturated += counts.saturated;
  stats->non_finite += counts.non_finite;
}

void DecodeUnit(const CodecSpec& spec, const std::byte* bytes, size_t elems, float* out) {
  KVANT_DCHECK(elems % 8 == 0);
  switch (spec.family) {
    case CodecFamily::kF32:
      std::memcpy(out, bytes, elems * sizeof(float));
      break;
    case CodecFamily::kF16:
      for (size_t index = 0; index < elems; ++index) out[index] = LoadHalf(bytes + index * 2);
      break;
    case CodecFamily::kBf16:
      for (size_t index = 0; index < elems; ++index) {
        uint16_t bits;
        std::memcpy(&bits, bytes + index * 2, sizeof(bits));
        out[index] = Bfloat16ToFloat(bits);
      }
      break;
    case CodecFamily::kAffine:
    case CodecFamily::kAbsmax:
      DecodeGrid(spec, bytes, {out, elems});
      break;
    case CodecFamily::kDict3:
      for (size_t index = 0; index < elems; ++index) {
        const float scale = kDict3Table.scales[GetBits(bytes, index / kDict3Group * 6, 6)];
        out[index] = kLloyd8Centroids[GetBits(bytes + Dict3CodesOffset(elems), index * 3, 3)] * scale;
      }
      break;
    default: {
      const size_t block_bytes = UnitBytes(spec, kGgmlBlock);
      for (size_t begin = 0; begin < elems; begin += kGgmlBlock) {
        DecodeGgmlBlock(spec.family, bytes + begin / kGgmlBlock * block_bytes, {out + begin, kGgmlBlock});
      }
    }
  }
}

}  // namespace kvant::reference
