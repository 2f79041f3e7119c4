// IEEE binary16 and bfloat16 <-> f32, one value at a time: the reference that SIMD conversions are tested against.
#pragma once

#include <cstdint>

namespace kvant {

inline constexpr float kHalfMax = 65504.0f;

// Exact for every input; NaN stays NaN, subnormals are kept.
float HalfToFloat(uint16_t bits);

// Round to nearest even. |x| >= 65520 becomes infinity, as IEEE says; codecs that must not overflow clamp first.
uint16_t FloatToHalf(float x);

inline float RoundToHalf(float x) { return HalfToFloat(FloatToHalf(x)); }

float Bfloat16ToFloat(uint16_t bits);
uint16_t FloatToBfloat16(float x);  // round to nearest even; NaN stays a quiet NaN

}  // namespace kvant
