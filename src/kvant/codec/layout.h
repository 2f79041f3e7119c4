// Where things lie inside a unit, and the numbers that the formats define. Shared by the reference and the fast code;
// they share nothing else. Internal to codec/.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kvant/codec/codec.h"
#include "kvant/tensor/ggml_blocks.h"

namespace kvant::codec_detail {

static_assert(std::endian::native == std::endian::little, "packed units are little-endian and are read in place");

// Affine and absmax:
//   | group 0: half scale, half minimum | group 1: ... | codes, elems * bits bits | 0 or 1 zero byte |
//   |<------ meta_bytes per group ---->|               ^ codes_offset             ^ to an even size
// Absmax has no minimum. Value i of the unit owns the bits [i * bits, (i + 1) * bits) of the codes, low bit first.
// All groups have group_elems values but the last, which has what is left.
struct GridLayout {
  size_t group_elems;
  size_t groups;
  size_t meta_bytes;
  size_t codes_offset;
  size_t unit_bytes;
};

inline GridLayout LayoutOf(const CodecSpec& spec, size_t elems) {
  GridLayout layout;
  layout.group_elems = spec.group > 0 ? static_cast<size_t>(spec.group) : elems;
  layout.groups = (elems + layout.group_elems - 1) / layout.group_elems;
  layout.meta_bytes = spec.family == CodecFamily::kAffine ? 4 : 2;
  layout.codes_offset = layout.groups * layout.meta_bytes;
  layout.unit_bytes = (layout.codes_offset + elems * static_cast<size_t>(spec.bits) / 8 + 1) & ~size_t{1};
  return layout;
}

// Dict3: | 6-bit scale indices, group after group, to a whole byte | 3-bit codes |, both low bit first.
inline constexpr size_t kDict3Group = 32;
inline constexpr size_t Dict3Groups(size_t elems) { return (elems + kDict3Group - 1) / kDict3Group; }
inline constexpr size_t Dict3CodesOffset(size_t elems) { return (Dict3Groups(elems) * 6 + 7) / 8; }
inline constexpr size_t Dict3UnitBytes(size_t elems) { return Dict3CodesOffset(elems) + elems / 8 * 3; }

// Scale 0 is exactly zero; scale k is 2^(Dict3Quarters(k) / 4): quarter octaves from 2^-6 to 2^6, where keys and values
// of real models are, and steps of 1.25 octaves outside, so that magnitudes from 8e-5 to 6e4 can be stored at all.
inline constexpr int kDict3Scales = 64;
inline constexpr int Dict3Quarters(int index) {
  if (index < 8) return -24 - 5 * (8 - index);
  if (index <= 56) return index - 32;
  return 24 + 5 * (index - 56);
}
inline constexpr float Dict3Scale(int index) {
  if (index == 0) return 0.0f;
  // 2^(0/4) ... 2^(3/4), rounded to f32; multiplying by a power of two is exact.
  constexpr float kRoots[4] = {1.0f, 0x1.306fe0p+0f, 0x1.6a09e6p+0f, 0x1.ae89fap+0f};
  const int quarters = Dict3Quarters(index) + 60;  // >= 0, so that / and % floor
  float scale = kRoots[quarters % 4];
  for (int octave = 15; octave < quarters / 4; ++octave) scale *= 2.0f;
  for (int octave = quarters / 4; octave < 15; ++octave) scale *= 0.5f;
  return scale;
}
struct Dict3Table {
  float scales[kDict3Scales];
  constexpr Dict3Table() : scales() {
    for (int index = 0; index < kDict3Scales; ++index) scales[index] = Dict3Scale(index);
  }
};
inline constexpr Dict3Table kDict3Table;

// Lloyd-Max for N(0,1) with 8 levels: fixed point of "threshold = midpoint of centroids, centroid = mean of its cell",
// rounded to f32 (Max 1960, table I: 0.2451, 0.7560, 1.344, 2.152; thresholds 0.5006, 1.050, 1.748).
inline constexpr float kLloyd8Centroids[8] = {-2.151945705f, -1.343909279f, -0.7560052813f, -0.2450941789f,
                                              0.2450941789f, 0.7560052813f, 1.343909279f,   2.151945705f};
inline constexpr float kLloyd8Thresholds[7] = {-1.747927491f, -1.04995728f, -0.5005497301f, 0.0f,
                                               0.5005497301f, 1.04995728f,  1.747927491f};
inline constexpr float kDict3Max = 2.151945705f * Dict3Scale(kDict3Scales - 1);

// A ggml reciprocal: 1 / d of the unrounded scale; 0 where d is 0 or so small that 1 / d is infinite in f32.
inline float GgmlReciprocal(float scale) {
  if (scale == 0.0f) return 0.0f;
  const float reciprocal = 1.0f / scale;
  return reciprocal > 3.4028234664e38f || reciprocal < -3.4028234664e38f ? 0.0f : reciprocal;
}

}  // namespace kvant::codec_detail
