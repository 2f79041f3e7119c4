#include <cstring>

#include "kvant/base/check.h"
#include "kvant/base/half.h"
#include "kvant/io/dequantize.h"
#include "kvant/tensor/ggml_blocks.h"

namespace kvant::reference {
namespace {

int Nibble(const uint8_t* qs, size_t value) {
  return value < kGgmlBlock / 2 ? qs[value] & 15 : qs[value - kGgmlBlock / 2] >> 4;
}

int FifthBit(const uint8_t* qh, size_t value) { return (qh[value / 8] >> (value % 8)) & 1; }

float Value(const BlockQ4_0& block, size_t value) {
  return static_cast<float>(Nibble(block.qs, value) - 8) * HalfToFloat(block.d);
}

float Value(const BlockQ4_1& block, size_t value) {
  return static_cast<float>(Nibble(block.qs, value)) * HalfToFloat(block.d) + HalfToFloat(block.m);
}

float Value(const BlockQ5_0& block, size_t value) {
  const int code = Nibble(block.qs, value) | FifthBit(block.qh, value) << 4;
  return static_cast<float>(code - 16) * HalfToFloat(block.d);
}

float Value(const BlockQ5_1& block, size_t value) {
  const int code = Nibble(block.qs, value) | FifthBit(block.qh, value) << 4;
  return static_cast<float>(code) * HalfToFloat(block.d) + HalfToFloat(block.m);
}

float Value(const BlockQ8_0& block, size_t value) { return static_cast<float>(block.qs[value]) * HalfToFloat(block.d); }

struct ScaleMin {
  int scale;
  int min;
};

// The six-bit scale and min of one run of 32 values; diagram in tensor/ggml_blocks.h.
ScaleMin SixBits(const uint8_t* scales, size_t run) {
  if (run < 4) return {scales[run] & 63, scales[run + 4] & 63};
  return {(scales[run + 4] & 15) | (scales[run - 4] >> 6) << 4, (scales[run + 4] >> 4) | (scales[run] >> 6) << 4};
}

template <typename Block>
float ScaledK(const Block& block, size_t run, int code) {
  const ScaleMin six = SixBits(block.scales, run);
  const float scale = HalfToFloat(block.d) * static_cast<float>(six.scale);
  const float min = HalfToFloat(block.dmin) * static_cast<float>(six.min);
  return scale * static_cast<float>(code) - min;
}

int NibbleK(const uint8_t* qs, size_t value) {
  const size_t run = value / 32;
  const uint8_t byte = qs[run / 2 * 32 + value % 32];
  return run % 2 == 0 ? byte & 15 : byte >> 4;
}

float Value(const BlockQ4_K& block, size_t value) { return ScaledK(block, value / 32, NibbleK(block.qs, value)); }

float Value(const BlockQ5_K& block, size_t value) {
  const int high = (block.qh[value % 32] >> (value / 32)) & 1;
  return ScaledK(block, value / 32, NibbleK(block.qs, value) | high << 4);
}

float Value(const BlockQ6_K& block, size_t value) {
  const size_t run = value / 128;
  const size_t quarter = value % 128 / 32;
  const uint8_t low_byte = block.ql[run * 64 + quarter % 2 * 32 + value % 32];
  const int low = quarter < 2 ? low_byte & 15 : low_byte >> 4;
  const int high = (block.qh[run * 32 + value % 32] >> (2 * quarter)) & 3;
  const float scale = HalfToFloat(block.d) * static_cast<float>(block.scales[value / 16]);
  return scale * static_cast<float>((low | high << 4) - 32);
}

template <typename Block, size_t kElems>
void Blocks(const std::byte* row, size_t elems, float* out) {
  for (size_t first = 0; first < elems; first += kElems) {
    Block block;
    std::memcpy(&block, row + first / kElems * sizeof(Block), sizeof(Block));
    for (size_t value = 0; value < kElems; ++value) out[first + value] = Value(block, value);
  }
}

template <float (*kConvert)(uint16_t)>
void Words(const std::byte* row, size_t elems, float* out) {
  for (size_t value = 0; value < elems; ++value) {
    uint16_t bits = 0;
    std::memcpy(&bits, row + value * sizeof(bits), sizeof(bits));
    out[value] = kConvert(bits);
  }
}

}  // namespace

void DequantizeRow(GgmlType type, const std::byte* row, size_t elems, float* out) {
  KVANT_CHECK(elems % Info(type).block_elems == 0);
  if (elems == 0) return;  // row and out may be null
  switch (type) {
    case GgmlType::kF32:
      std::memcpy(out, row, elems * sizeof(float));
      return;
    case GgmlType::kF16:
      return Words<HalfToFloat>(row, elems, out);
    case GgmlType::kBF16:
      return Words<Bfloat16ToFloat>(row, elems, out);
    case GgmlType::kQ4_0:
      return Blocks<BlockQ4_0, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ4_1:
      return Blocks<BlockQ4_1, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ5_0:
      return Blocks<BlockQ5_0, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ5_1:
      return Blocks<BlockQ5_1, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ8_0:
      return Blocks<BlockQ8_0, kGgmlBlock>(row, elems, out);
    case GgmlType::kQ4_K:
      return Blocks<BlockQ4_K, kGgmlSuperBlock>(row, elems, out);
    case GgmlType::kQ5_K:
      return Blocks<BlockQ5_K, kGgmlSuperBlock>(row, elems, out);
    case GgmlType::kQ6_K:
      return Blocks<BlockQ6_K, kGgmlSuperBlock>(row, elems, out);
    default:
      KVANT_CHECK(Info(type).decodable);
  }
}

}  // namespace kvant::reference
