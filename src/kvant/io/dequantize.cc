#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/io/dequantize.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kvant/base/check.h"
#include "kvant/io/dequantize.h"
#include "kvant/tensor/ggml_blocks.h"

static_assert(std::endian::native == std::endian::little, "GGUF weights are read in place: little-endian hosts only");

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that a vector never spans two scales of Q6_K or the two nibble halves of a 32-value block.
using DF = hn::CappedTag<float, 16>;
using DI32 = hn::Rebind<int32_t, DF>;
using DU32 = hn::Rebind<uint32_t, DF>;
using DU16 = hn::Rebind<uint16_t, DF>;
using DU8 = hn::Rebind<uint8_t, DF>;
using DI8 = hn::Rebind<int8_t, DF>;
using VF = hn::Vec<DF>;
using VI32 = hn::Vec<DI32>;

constexpr size_t kLanes = hn::MaxLanes(DF());
static_assert(16 % kLanes == 0);

HWY_INLINE VF PromoteHalf(hn::Vec<DU16> bits) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
  return hn::PromoteTo(DF(), hn::BitCast(hn::Rebind<hwy::float16_t, DF>(), bits));
#else
  // Highway's own promotion without F16C makes numbers of infinity and NaN.
  const DF df;
  const DU32 du32;
  const auto wide = hn::PromoteTo(du32, bits);
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du32, 0x8000u)));
  const auto magnitude = hn::And(wide, hn::Set(du32, 0x7fffu));
  const auto special = hn::BitCast(DI32(), magnitude) > hn::Set(DI32(), 0x7bff);
  const auto subnormal = hn::BitCast(DI32(), magnitude) < hn::Set(DI32(), 0x0400);
  const auto rebiased = hn::Add(hn::ShiftLeft<13>(magnitude), hn::Set(du32, 112u << 23));
  const auto normal = hn::Or(rebiased, hn::IfThenElseZero(hn::RebindMask(du32, special), hn::Set(du32, 0x7f800000u)));
  const auto small = hn::Mul(hn::ConvertTo(df, hn::BitCast(DI32(), magnitude)), hn::Set(df, 0x1p-24f));
  const auto value = hn::IfThenElse(hn::RebindMask(df, subnormal), small, hn::BitCast(df, normal));
  return hn::Or(value, hn::BitCast(df, sign));
#endif
}

// The half at `bytes`, in every lane.
HWY_INLINE VF BroadcastHalf(const uint8_t* HWY_RESTRICT bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return PromoteHalf(hn::Set(DU16(), bits));
}

HWY_INLINE VI32 LoadBytes(const uint8_t* HWY_RESTRICT bytes) { return hn::PromoteTo(DI32(), hn::LoadU(DU8(), bytes)); }

HWY_INLINE VI32 LowNibbles(VI32 bytes) { return hn::And(bytes, hn::Set(DI32(), 15)); }
HWY_INLINE VI32 HighNibbles(VI32 bytes) { return hn::ShiftRight<4>(bytes); }

// 16 where any bit of `bit` is set in `bits`, else 0.
HWY_INLINE VI32 Fifth(VI32 bits, VI32 bit) { return hn::IfThenElseZero(hn::TestBit(bits, bit), hn::Set(DI32(), 16)); }

HWY_INLINE void StoreFloat(VF value, float* HWY_RESTRICT out) { hn::StoreU(value, DF(), out); }
HWY_INLINE VF ToFloat(VI32 codes) { return hn::ConvertTo(DF(), codes); }

// One 32-value block with nibbles at `qs`: transform(codes, first) makes f32 of the codes of values first, first + 1...
template <class Transform>
HWY_INLINE void NibbleBlock(const uint8_t* HWY_RESTRICT qs, float* HWY_RESTRICT out, const Transform& transform) {
  for (size_t byte = 0; byte < kGgmlBlock / 2; byte += kLanes) {
    const VI32 bytes = LoadBytes(qs + byte);
    StoreFloat(transform(LowNibbles(bytes), byte), out + byte);
    StoreFloat(transform(HighNibbles(bytes), byte + kGgmlBlock / 2), out + byte + kGgmlBlock / 2);
  }
}

struct TimesScale {  // (q - kZero) * d
  VF d;
  VI32 zero;
  HWY_INLINE VF operator()(VI32 codes, size_t) const { return hn::Mul(ToFloat(hn::Sub(codes, zero)), d); }
};

struct TimesScalePlusMin {  // q * d + m
  VF d;
  VF m;
  HWY_INLINE VF operator()(VI32 codes, size_t) const { return hn::Add(hn::Mul(ToFloat(codes), d), m); }
};

alignas(64) constexpr int32_t kBit[kGgmlBlock] = {
    1 << 0,  1 << 1,  1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,  1 << 8,  1 << 9,   1 << 10,
    1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20,  1 << 21,
    1 << 22, 1 << 23, 1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30, INT32_MIN};

// Adds the fifth bits of a q5_x block, then applies Inner.
template <class Inner>
struct WithFifthBit {
  VI32 qh;
  Inner inner;
  HWY_INLINE VF operator()(VI32 codes, size_t first) const {
    return inner(hn::Or(codes, Fifth(qh, hn::LoadU(DI32(), kBit + first))), first);
  }
};

HWY_INLINE VI32 BroadcastWord(const uint8_t* HWY_RESTRICT bytes) {
  int32_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return hn::Set(DI32(), word);
}

HWY_INLINE void DecodeBlock(const BlockQ4_0*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  NibbleBlock(in + offsetof(BlockQ4_0, qs), out, TimesScale{BroadcastHalf(in), hn::Set(DI32(), 8)});
}

HWY_INLINE void DecodeBlock(const BlockQ4_1*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  NibbleBlock(in + offsetof(BlockQ4_1, qs), out,
              TimesScalePlusMin{BroadcastHalf(in), BroadcastHalf(in + offsetof(BlockQ4_1, m))});
}

HWY_INLINE void DecodeBlock(const BlockQ5_0*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  const TimesScale scale{BroadcastHalf(in), hn::Set(DI32(), 16)};
  NibbleBlock(in + offsetof(BlockQ5_0, qs), out,
              WithFifthBit<TimesScale>{BroadcastWord(in + offsetof(BlockQ5_0, qh)), scale});
}

HWY_INLINE void DecodeBlock(const BlockQ5_1*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  const TimesScalePlusMin scale{BroadcastHalf(in), BroadcastHalf(in + offsetof(BlockQ5_1, m))};
  NibbleBlock(in + offsetof(BlockQ5_1, qs), out,
              WithFifthBit<TimesScalePlusMin>{BroadcastWord(in + offsetof(BlockQ5_1, qh)), scale});
}

HWY_INLINE VI32 LoadSigned(const uint8_t* HWY_RESTRICT bytes) {
  return hn::PromoteTo(DI32(), hn::LoadU(DI8(), reinterpret_cast<const int8_t*>(bytes)));
}

HWY_INLINE void DecodeBlock(const BlockQ8_0*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  const VF d = BroadcastHalf(in);
  for (size_t value = 0; value < kGgmlBlock; value += kLanes) {
    StoreFloat(hn::Mul(ToFloat(LoadSigned(in + offsetof(BlockQ8_0, qs) + value)), d), out + value);
  }
}

// d * scale and dmin * min of the eight runs of a Q4_K or Q5_K block.
struct RunScales {
  alignas(64) float scale[8];
  alignas(64) float min[8];
};

HWY_INLINE void UnpackScales(const uint8_t* HWY_RESTRICT in, RunScales& runs) {
  uint32_t word[3];  // four six-bit fields at a time, one in each byte of a word
  std::memcpy(word, in + offsetof(BlockQ4_K, scales), sizeof(word));
  const uint32_t codes[4] = {
      word[0] & 0x3f3f3f3fu, (word[2] & 0x0f0f0f0fu) | ((word[0] >> 2) & 0x30303030u),          // scales 0-3, 4-7
      word[1] & 0x3f3f3f3fu, ((word[2] >> 4) & 0x0f0f0f0fu) | ((word[1] >> 2) & 0x30303030u)};  // mins 0-3, 4-7
  const hn::CappedTag<float, 8> d8;
  const hn::Rebind<int32_t, decltype(d8)> di32;
  const hn::Rebind<uint8_t, decltype(d8)> du8;
  const float d = hn::GetLane(BroadcastHalf(in));
  const float dmin = hn::GetLane(BroadcastHalf(in + offsetof(BlockQ4_K, dmin)));
  uint8_t bytes[16];
  std::memcpy(bytes, codes, sizeof(bytes));
  for (size_t run = 0; run < 8; run += hn::Lanes(d8)) {
    const auto scale = hn::ConvertTo(d8, hn::PromoteTo(di32, hn::LoadU(du8, bytes + run)));
    const auto min = hn::ConvertTo(d8, hn::PromoteTo(di32, hn::LoadU(du8, bytes + 8 + run)));
    hn::StoreU(hn::Mul(hn::Set(d8, d), scale), d8, runs.scale + run);
    hn::StoreU(hn::Mul(hn::Set(d8, dmin), min), d8, runs.min + run);
  }
}
static_assert(offsetof(BlockQ4_K, scales) == offsetof(BlockQ5_K, scales));
static_assert(offsetof(BlockQ4_K, dmin) == offsetof(BlockQ5_K, dmin));

// Nibbles at `qs`, fifth bits at `qh` when kFive.
template <bool kFive>
HWY_INLINE void DecodeRuns(const RunScales& runs, const uint8_t* HWY_RESTRICT qs, const uint8_t* HWY_RESTRICT qh,
                           float* HWY_RESTRICT out) {
  const DF df;
  for (size_t run = 0; run < 8; run += 2) {
    const VF low_scale = hn::Set(df, runs.scale[run]);
    const VF low_min = hn::Set(df, runs.min[run]);
    const VF high_scale = hn::Set(df, runs.scale[run + 1]);
    const VF high_min = hn::Set(df, runs.min[run + 1]);
    for (size_t byte = 0; byte < 32; byte += kLanes) {
      const VI32 bytes = LoadBytes(qs + run * 16 + byte);
      VI32 low = LowNibbles(bytes);
      VI32 high = HighNibbles(bytes);
      if constexpr (kFive) {
        const VI32 bits = LoadBytes(qh + byte);
        low = hn::Or(low, Fifth(bits, hn::Set(DI32(), 1 << run)));
        high = hn::Or(high, Fifth(bits, hn::Set(DI32(), 2 << run)));
      }
      StoreFloat(hn::Sub(hn::Mul(low_scale, ToFloat(low)), low_min), out + run * 32 + byte);
      StoreFloat(hn::Sub(hn::Mul(high_scale, ToFloat(high)), high_min), out + run * 32 + 32 + byte);
    }
  }
}

HWY_INLINE void DecodeBlock(const BlockQ4_K*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  RunScales runs;
  UnpackScales(in, runs);
  DecodeRuns<false>(runs, in + offsetof(BlockQ4_K, qs), nullptr, out);
}

HWY_INLINE void DecodeBlock(const BlockQ5_K*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  RunScales runs;
  UnpackScales(in, runs);
  DecodeRuns<true>(runs, in + offsetof(BlockQ5_K, qs), in + offsetof(BlockQ5_K, qh), out);
}

HWY_INLINE void DecodeBlock(const BlockQ6_K*, const uint8_t* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  const DF df;
  alignas(64) float scales[16];
  const VF d = BroadcastHalf(in + offsetof(BlockQ6_K, d));
  for (size_t run = 0; run < 16; run += kLanes) {
    hn::Store(hn::Mul(d, ToFloat(LoadSigned(in + offsetof(BlockQ6_K, scales) + run))), df, scales + run);
  }
  const VI32 two_bits = hn::Set(DI32(), 0x30);
  const VI32 zero = hn::Set(DI32(), 32);
  for (size_t half = 0; half < 2; ++half) {
    const uint8_t* HWY_RESTRICT ql = in + half * 64;
    const uint8_t* HWY_RESTRICT qh = in + offsetof(BlockQ6_K, qh) + half * 32;
    for (size_t value = 0; value < 32; value += kLanes) {
      const VI32 first = LoadBytes(ql + value);
      const VI32 second = LoadBytes(ql + 32 + value);
      const VI32 upper = LoadBytes(qh + value);
      const VI32 quarters[4] = {
          hn::Or(LowNibbles(first), hn::And(hn::ShiftLeft<4>(upper), two_bits)),
          hn::Or(LowNibbles(second), hn::And(hn::ShiftLeft<2>(upper), two_bits)),
          hn::Or(HighNibbles(first), hn::And(upper, two_bits)),
          hn::Or(HighNibbles(second), hn::And(hn::ShiftRight<2>(upper), two_bits)),
      };
      for (size_t quarter = 0; quarter < 4; ++quarter) {
        const VF scale = hn::Set(df, scales[half * 8 + quarter * 2 + value / 16]);
        StoreFloat(hn::Mul(scale, ToFloat(hn::Sub(quarters[quarter], zero))), out + half * 128 + quarter * 32 + value);
      }
    }
  }
}

template <class Block, size_t kElems>
void DecodeRow(const uint8_t* HWY_RESTRICT row, size_t elems, float* HWY_RESTRICT out) {
  for (size_t block = 0; block < elems / kElems; ++block) {
    DecodeBlock(static_cast<const Block*>(nullptr), row + block * sizeof(Block), out + block * kElems);
  }
}

struct FromHalf {
  HWY_INLINE VF operator()(hn::Vec<DU16> bits) const { return PromoteHalf(bits); }
};
struct FromBfloat16 {
  HWY_INLINE VF operator()(hn::Vec<DU16> bits) const {
    return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU32(), bits)));
  }
};

template <class Convert>
void WordRow(const uint8_t* HWY_RESTRICT row, size_t elems, float* HWY_RESTRICT out, const Convert& convert) {
  const DU16 du16;
  alignas(64) uint16_t words[kLanes];
  size_t value = 0;
  for (; value + kLanes <= elems; value += kLanes) {
    std::memcpy(words, row + value * 2, sizeof(words));  // the row may start at an odd address
    StoreFloat(convert(hn::Load(du16, words)), out + value);
  }
  if (value == elems) return;
  alignas(64) float floats[kLanes];
  std::memset(words, 0, sizeof(words));
  std::memcpy(words, row + value * 2, (elems - value) * 2);
  hn::Store(convert(hn::Load(du16, words)), DF(), floats);
  std::memcpy(out + value, floats, (elems - value) * sizeof(float));
}

void DequantizeRow(GgmlType type, const uint8_t* HWY_RESTRICT row, size_t elems, float* HWY_RESTRICT out) {
  switch (type) {
    case GgmlType::kF32:
      std::memcpy(out, row, elems * sizeof(float));
      return;
    case GgmlType::kF16:
      return WordRow(row, elems, out, FromHalf());
    case GgmlType::kBF16:
      return WordRow(row, elems, out, FromBfloat16());
    case GgmlType::kQ4_0:
      return DecodeRow<BlockQ4_0, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ4_1:
      return DecodeRow<BlockQ4_1, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ5_0:
      return DecodeRow<BlockQ5_0, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ5_1:
      return DecodeRow<BlockQ5_1, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ8_0:
      return DecodeRow<BlockQ8_0, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ4_K:
      return DecodeRow<BlockQ4_K, kGgmlSuperBlock>(row, elems, out);
    case GgmlType::kQ5_K:
      return DecodeRow<BlockQ5_K, kGgmlSuperBlock>(row, elems, out);
    case GgmlType::kQ6_K:
      return DecodeRow<BlockQ6_K, kGgmlSuperBlock>(row, elems, out);
    default:
      KVANT_CHECK(Info(type).decodable);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(DequantizeRow);

void DequantizeRow(GgmlType type, const std::byte* row, size_t elems, float* out) {
  KVANT_DCHECK(elems % Info(type).block_elems == 0);
  if (elems == 0) return;  // row and out may be null
  HWY_DYNAMIC_DISPATCH(DequantizeRow)(type, reinterpret_cast<const uint8_t*>(row), elems, out);
}

}  // namespace kvant
#endif  // HWY_ONCE
