// Eight f32 or i32 lanes on every target: one 256-bit vector where there is one, eight plain values otherwise. Kernels
// written on these give the same bits everywhere because each operation is one correctly rounded f32 step.
// 512-bit vectors are not used: rows are short (64-256 values) and loads, not arithmetic, set the pace.

#if defined(KVANT_CODEC_EIGHT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_CODEC_EIGHT_INL_H_
#undef KVANT_CODEC_EIGHT_INL_H_
#else
#define KVANT_CODEC_EIGHT_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kvant/base/half.h"
#include "kvant/codec/bits.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {

#if HWY_MAX_BYTES >= 32

namespace hn = hwy::HWY_NAMESPACE;
using DF8 = hn::Simd<float, 8, 0>;
using DI8 = hn::Simd<int32_t, 8, 0>;
using F8 = hn::Vec<DF8>;
using I8 = hn::Vec<DI8>;

HWY_INLINE F8 Load8(const float* from) { return hn::LoadU(DF8(), from); }
HWY_INLINE void Store8(F8 v, float* to) { hn::StoreU(v, DF8(), to); }
HWY_INLINE F8 Set8(float x) { return hn::Set(DF8(), x); }
HWY_INLINE F8 Add8(F8 a, F8 b) { return hn::Add(a, b); }
HWY_INLINE F8 Sub8(F8 a, F8 b) { return hn::Sub(a, b); }
HWY_INLINE F8 Mul8(F8 a, F8 b) { return hn::Mul(a, b); }
HWY_INLINE F8 Div8(F8 a, F8 b) { return hn::Div(a, b); }
HWY_INLINE F8 Min8(F8 a, F8 b) { return hn::Min(a, b); }
HWY_INLINE F8 Max8(F8 a, F8 b) { return hn::Max(a, b); }
HWY_INLINE F8 Abs8(F8 a) { return hn::Abs(a); }
HWY_INLINE float ReduceMin8(F8 v) { return hn::GetLane(hn::MinOfLanes(DF8(), v)); }
HWY_INLINE float ReduceMax8(F8 v) { return hn::GetLane(hn::MaxOfLanes(DF8(), v)); }
// a >= b ? yes : no, lane by lane.
HWY_INLINE F8 SelectGe8(F8 a, F8 b, F8 yes, F8 no) { return hn::IfThenElse(hn::Ge(a, b), yes, no); }

// Sums lanes as a halving tree: i += i + 4, then i + 2, then i + 1.
HWY_INLINE float TreeSum8(F8 v) {
  v = hn::Add(v, hn::ConcatLowerUpper(DF8(), v, v));
  v = hn::Add(v, hn::Shuffle1032(v));
  return hn::GetLane(hn::Add(v, hn::Shuffle2301(v)));
}

HWY_INLINE F8 FloatOf(I8 v) { return hn::ConvertTo(DF8(), v); }
HWY_INLINE I8 AddInt8(I8 v, int32_t x) { return hn::Add(v, hn::Set(DI8(), x)); }
HWY_INLINE I8 Nearest8(F8 v) { return hn::NearestInt(v); }  // half to even
HWY_INLINE I8 Trunc8(F8 v) { return hn::ConvertTo(DI8(), v); }
// Half away from zero, like roundf; |v| < 2^31.
HWY_INLINE I8 Round8(F8 v) {
  const F8 whole = FloatOf(Trunc8(v));
  const F8 away = hn::CopySign(Set8(1.0f), v);
  return Trunc8(hn::Add(whole, hn::IfThenElseZero(hn::Ge(hn::Abs(hn::Sub(v, whole)), Set8(0.5f)), away)));
}
// The low bytes of the lanes; they must be in [0, 255], or [-128, 127] for the signed one.
HWY_INLINE uint64_t BytesOf(I8 v) {
  uint64_t bytes;
  const hn::Simd<uint8_t, 8, 0> d;
  hn::StoreU(hn::DemoteTo(d, v), d, reinterpret_cast<uint8_t*>(&bytes));
  return bytes;
}
HWY_INLINE uint64_t SignedBytesOf(I8 v) {
  uint64_t bytes;
  const hn::Simd<int8_t, 8, 0> d;
  hn::StoreU(hn::DemoteTo(d, v), d, reinterpret_cast<int8_t*>(&bytes));
  return bytes;
}
HWY_INLINE I8 IntOfBytes(uint64_t bytes) {
  const hn::Simd<uint64_t, 1, 0> d;
  return hn::PromoteTo(DI8(), hn::BitCast(hn::Simd<uint8_t, 8, 0>(), hn::Set(d, bytes)));
}
HWY_INLINE I8 IntOfSignedBytes(const int8_t* bytes) {
  return hn::PromoteTo(DI8(), hn::LoadU(hn::Simd<int8_t, 8, 0>(), bytes));
}
HWY_INLINE I8 OrShifted4(I8 low, I8 high) { return hn::Or(low, hn::ShiftLeft<4>(high)); }

// Eight codes of B bits from exactly B bytes. Up to 4 bits all eight lie in one 32-bit word; above, the upper four are
// the low 4 * B bits of the rest.
template <int B>
HWY_INLINE I8 Codes8(const uint8_t* bytes) {
  if constexpr (B == 8) {
    return hn::PromoteTo(DI8(), hn::LoadU(hn::Simd<uint8_t, 8, 0>(), bytes));
  } else {
    const hn::Simd<uint32_t, 8, 0> d;
    const uint64_t word = codec_detail::LoadBytes<B>(bytes);
    const auto mask = hn::Set(d, (1u << B) - 1);
    if constexpr (B <= 4) {
      alignas(32) static constexpr uint32_t kShifts[8] = {0, B, 2 * B, 3 * B, 4 * B, 5 * B, 6 * B, 7 * B};
      const auto all = hn::Set(d, static_cast<uint32_t>(word));
      return hn::BitCast(DI8(), hn::And(hn::Shr(all, hn::Load(d, kShifts)), mask));
    } else {
      alignas(32) static constexpr uint32_t kShifts[8] = {0, B, 2 * B, 3 * B, 0, B, 2 * B, 3 * B};
      const hn::Simd<uint32_t, 4, 0> half;
      const auto low = hn::Set(half, static_cast<uint32_t>(word));
      const auto high = hn::Set(half, static_cast<uint32_t>(word >> (4 * B)));
      return hn::BitCast(DI8(), hn::And(hn::Shr(hn::Combine(d, high, low), hn::Load(d, kShifts)), mask));
    }
  }
}

// table[index], indices in [0, 7].
HWY_INLINE F8 Lookup8(F8 table, I8 index) { return hn::TableLookupLanes(table, hn::IndicesFromVec(DF8(), index)); }

HWY_INLINE float HalfAt(const void* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  const hn::Simd<hwy::float16_t, 1, 0> dh;
  const auto half = hn::BitCast(dh, hn::Set(hn::Simd<uint16_t, 1, 0>(), bits));
  return hn::GetLane(hn::PromoteTo(hn::Simd<float, 1, 0>(), half));
}
HWY_INLINE F8 LoadHalf8(const uint8_t* bytes) {
  const hn::Simd<uint16_t, 8, 0> du;
  const hn::Simd<hwy::float16_t, 8, 0> dh;
  return hn::PromoteTo(DF8(), hn::BitCast(dh, hn::LoadU(du, reinterpret_cast<const uint16_t*>(bytes))));
}
HWY_INLINE void StoreHalf8(F8 v, uint8_t* bytes) {
  const hn::Simd<uint16_t, 8, 0> du;
  const hn::Simd<hwy::float16_t, 8, 0> dh;
  hn::StoreU(hn::BitCast(du, hn::DemoteTo(dh, v)), du, reinterpret_cast<uint16_t*>(bytes));
}
HWY_INLINE F8 LoadBfloat8(const uint8_t* bytes) {
  const hn::Simd<uint32_t, 8, 0> d;
  const auto bits = hn::LoadU(hn::Simd<uint16_t, 8, 0>(), reinterpret_cast<const uint16_t*>(bytes));
  return hn::BitCast(DF8(), hn::ShiftLeft<16>(hn::PromoteTo(d, bits)));
}

// One Walsh-Hadamard transform of the eight lanes, stages 1, 2, 4: the even member of a pair becomes a + b, the odd
// a - b.
HWY_INLINE F8 Hadamard8(F8 v) {
  const hn::Simd<double, 4, 0> pairs;
  F8 other = hn::Shuffle2301(v);
  v = hn::OddEven(hn::Sub(other, v), hn::Add(v, other));
  other = hn::Shuffle1032(v);
  const F8 sum2 = hn::Add(v, other);
  const F8 difference2 = hn::Sub(other, v);
  v = hn::BitCast(DF8(), hn::OddEven(hn::BitCast(pairs, difference2), hn::BitCast(pairs, sum2)));
  other = hn::ConcatLowerUpper(DF8(), v, v);
  return hn::ConcatUpperLower(DF8(), hn::Sub(other, v), hn::Add(v, other));
}

#else  // plain values

struct F8 {
  float lane[8];
};
struct I8 {
  int32_t lane[8];
};

#define KVANT_EIGHT(type, expression)                      \
  type result;                                             \
  for (int i = 0; i < 8; ++i) result.lane[i] = expression; \
  return result

inline F8 Load8(const float* from) { KVANT_EIGHT(F8, from[i]); }
inline void Store8(const F8& v, float* to) { std::memcpy(to, v.lane, sizeof(v.lane)); }
inline F8 Set8(float x) { KVANT_EIGHT(F8, x); }
inline F8 Add8(const F8& a, const F8& b) { KVANT_EIGHT(F8, a.lane[i] + b.lane[i]); }
inline F8 Sub8(const F8& a, const F8& b) { KVANT_EIGHT(F8, a.lane[i] - b.lane[i]); }
inline F8 Mul8(const F8& a, const F8& b) { KVANT_EIGHT(F8, a.lane[i] * b.lane[i]); }
inline F8 Div8(const F8& a, const F8& b) { KVANT_EIGHT(F8, a.lane[i] / b.lane[i]); }
inline F8 Min8(const F8& a, const F8& b) { KVANT_EIGHT(F8, a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]); }
inline F8 Max8(const F8& a, const F8& b) { KVANT_EIGHT(F8, a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]); }
inline F8 Abs8(const F8& a) { KVANT_EIGHT(F8, std::fabs(a.lane[i])); }
inline float ReduceMin8(const F8& v) {
  float min = v.lane[0];
  for (int i = 1; i < 8; ++i) min = v.lane[i] < min ? v.lane[i] : min;
  return min;
}
inline float ReduceMax8(const F8& v) {
  float max = v.lane[0];
  for (int i = 1; i < 8; ++i) max = v.lane[i] > max ? v.lane[i] : max;
  return max;
}
inline F8 SelectGe8(const F8& a, const F8& b, const F8& yes, const F8& no) {
  KVANT_EIGHT(F8, a.lane[i] >= b.lane[i] ? yes.lane[i] : no.lane[i]);
}
inline float TreeSum8(F8 v) {
  for (int half = 4; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.lane[i] += v.lane[i + half];
  }
  return v.lane[0];
}
inline F8 FloatOf(const I8& v) { KVANT_EIGHT(F8, static_cast<float>(v.lane[i])); }
inline I8 AddInt8(const I8& v, int32_t x) { KVANT_EIGHT(I8, v.lane[i] + x); }
// Adding 1.5 * 2^23 leaves no fraction bits, so the addition itself rounds half to even; |v| < 2^22.
inline I8 Nearest8(const F8& v) { KVANT_EIGHT(I8, static_cast<int32_t>((v.lane[i] + 0x1.8p23f) - 0x1.8p23f)); }
inline I8 Trunc8(const F8& v) { KVANT_EIGHT(I8, static_cast<int32_t>(v.lane[i])); }
inline I8 Round8(const F8& v) { KVANT_EIGHT(I8, static_cast<int32_t>(std::round(v.lane[i]))); }
inline uint64_t BytesOf(const I8& v) {
  uint64_t bytes = 0;
  for (int i = 0; i < 8; ++i) bytes |= static_cast<uint64_t>(v.lane[i] & 0xff) << (8 * i);
  return bytes;
}
inline uint64_t SignedBytesOf(const I8& v) { return BytesOf(v); }
inline I8 IntOfBytes(uint64_t bytes) { KVANT_EIGHT(I8, static_cast<int32_t>((bytes >> (8 * i)) & 0xff)); }
inline I8 IntOfSignedBytes(const int8_t* bytes) { KVANT_EIGHT(I8, bytes[i]); }
inline I8 OrShifted4(const I8& low, const I8& high) { KVANT_EIGHT(I8, low.lane[i] | (high.lane[i] << 4)); }
template <int B>
inline I8 Codes8(const uint8_t* bytes) {
  const uint64_t word = codec_detail::LoadBytes<B>(bytes);
  KVANT_EIGHT(I8, static_cast<int32_t>((word >> (i * B)) & ((1u << B) - 1)));
}
inline F8 Lookup8(const F8& table, const I8& index) { KVANT_EIGHT(F8, table.lane[index.lane[i]]); }
inline float HalfAt(const void* bytes) {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return HalfToFloat(bits);
}
inline F8 LoadHalf8(const uint8_t* bytes) { KVANT_EIGHT(F8, HalfAt(bytes + 2 * i)); }
inline void StoreHalf8(const F8& v, uint8_t* bytes) {
  for (int i = 0; i < 8; ++i) {
    const uint16_t bits = FloatToHalf(v.lane[i]);
    std::memcpy(bytes + 2 * i, &bits, sizeof(bits));
  }
}
inline F8 LoadBfloat8(const uint8_t* bytes) {
  uint16_t bits[8];
  std::memcpy(bits, bytes, sizeof(bits));
  KVANT_EIGHT(F8, Bfloat16ToFloat(bits[i]));
}
inline F8 Hadamard8(F8 v) {
  for (int half = 1; half < 8; half *= 2) {
    for (int i = 0; i < 8; ++i) {
      if ((i & half) != 0) continue;
      const float a = v.lane[i];
      const float b = v.lane[i + half];
      v.lane[i] = a + b;
      v.lane[i + half] = a - b;
    }
  }
  return v;
}
#undef KVANT_EIGHT

#endif  // HWY_MAX_BYTES

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#endif  // include guard
