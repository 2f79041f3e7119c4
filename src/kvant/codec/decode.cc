// DecodeUnits: the fast twin of reference::DecodeUnit, eight values at a time. Attention calls it once per tile of
// tokens, so a row must cost no more than reading its bytes and writing its floats.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/codec/decode.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kvant/base/check.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/eight-inl.h"
#include "kvant/codec/layout.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {

using namespace codec_detail;

// The wanted values [begin, end) of one unit of `elems` values; begin, end and elems are multiples of 8.
struct RowRange {
  size_t elems;
  size_t begin;
  size_t end;
};

// ---- floats ---------------------------------------------------------------------------------------------------------

struct F32Row {
  static HWY_INLINE void Decode(const uint8_t* unit, const RowRange& range, float* out) {
    std::memcpy(out, unit + range.begin * sizeof(float), (range.end - range.begin) * sizeof(float));
  }
};

struct F16Row {
  static HWY_INLINE void Decode(const uint8_t* unit, const RowRange& range, float* out) {
    for (size_t index = range.begin; index < range.end; index += 8, out += 8) Store8(LoadHalf8(unit + 2 * index), out);
  }
};

struct Bf16Row {
  static HWY_INLINE void Decode(const uint8_t* unit, const RowRange& range, float* out) {
    for (size_t index = range.begin; index < range.end; index += 8, out += 8) {
      Store8(LoadBfloat8(unit + 2 * index), out);
    }
  }
};

// ---- affine, absmax: all eights of a group share scale and minimum --------------------------------------------------

template <int B, bool kAffine>
struct GridRow {
  GridLayout layout;

  HWY_INLINE void Decode(const uint8_t* unit, const RowRange& range, float* out) const {
    const uint8_t* const codes = unit + layout.codes_offset;
    const size_t first_group = range.begin / layout.group_elems;
    const uint8_t* meta = unit + first_group * layout.meta_bytes;
    size_t group_end = (first_group + 1) * layout.group_elems;
    for (size_t index = range.begin; index < range.end; group_end += layout.group_elems, meta += layout.meta_bytes) {
      const size_t end = std::min(group_end, range.end);
      const F8 scale = Set8(HalfAt(meta));
      if constexpr (kAffine) {
        const F8 zero = Set8(HalfAt(meta + 2));
        for (; index < end; index += 8, out += 8) {
          Store8(Add8(Mul8(FloatOf(Codes8<B>(codes + index / 8 * B)), scale), zero), out);
        }
      } else {
        for (; index < end; index += 8, out += 8) {
          Store8(Mul8(FloatOf(AddInt8(Codes8<B>(codes + index / 8 * B), -(1 << (B - 1)))), scale), out);
        }
      }
    }
  }
};

// ---- ggml blocks ----------------------------------------------------------------------------------------------------

constexpr uint64_t kNibbles = 0x0f0f0f0f0f0f0f0fu;

// The codes of eight `eight` of a block: eights 0 and 1 are low nibbles, 2 and 3 high ones.
HWY_INLINE I8 NibbleCodes(const uint8_t* qs, size_t eight) {
  return IntOfBytes((LoadBytes<8>(qs + 8 * (eight % 2)) >> (eight < 2 ? 0 : 4)) & kNibbles);
}

// Eight number `eight` of the block at `bytes`. Fields are read at their offsets, not through a struct: a unit may
// stand at an odd address, and copying a block first stalls on reading it back.
template <class Block>
HWY_INLINE F8 DecodeEight(const uint8_t* bytes, size_t eight, F8 scale, F8 minimum);

template <>
HWY_INLINE F8 DecodeEight<BlockQ4_0>(const uint8_t* bytes, size_t eight, F8 scale, F8 /*minimum*/) {
  return Mul8(FloatOf(AddInt8(NibbleCodes(bytes + offsetof(BlockQ4_0, qs), eight), -8)), scale);
}
template <>
HWY_INLINE F8 DecodeEight<BlockQ4_1>(const uint8_t* bytes, size_t eight, F8 scale, F8 minimum) {
  return Add8(Mul8(FloatOf(NibbleCodes(bytes + offsetof(BlockQ4_1, qs), eight)), scale), minimum);
}
template <>
HWY_INLINE F8 DecodeEight<BlockQ5_0>(const uint8_t* bytes, size_t eight, F8 scale, F8 /*minimum*/) {
  const I8 code = OrShifted4(NibbleCodes(bytes + offsetof(BlockQ5_0, qs), eight),
                             Codes8<1>(bytes + offsetof(BlockQ5_0, qh) + eight));
  return Mul8(FloatOf(AddInt8(code, -16)), scale);
}
template <>
HWY_INLINE F8 DecodeEight<BlockQ5_1>(const uint8_t* bytes, size_t eight, F8 scale, F8 minimum) {
  const I8 code = OrShifted4(NibbleCodes(bytes + offsetof(BlockQ5_1, qs), eight),
                             Codes8<1>(bytes + offsetof(BlockQ5_1, qh) + eight));
  return Add8(Mul8(FloatOf(code), scale), minimum);
}
template <>
HWY_INLINE F8 DecodeEight<BlockQ8_0>(const uint8_t* bytes, size_t eight, F8 scale, F8 /*minimum*/) {
  return Mul8(FloatOf(IntOfSignedBytes(reinterpret_cast<const int8_t*>(bytes) + offsetof(BlockQ8_0, qs) + 8 * eight)),
              scale);
}

template <class Block, bool kHasMinimum>
struct BlockRow {
  static HWY_INLINE void Decode(const uint8_t* unit, const RowRange& range, float* out) {
    for (size_t index = range.begin; index < range.end;) {
      const uint8_t* const bytes = unit + index / kGgmlBlock * sizeof(Block);
      const F8 scale = Set8(HalfAt(bytes));
      const F8 minimum = kHasMinimum ? Set8(HalfAt(bytes + sizeof(uint16_t))) : scale;
      const size_t from = index % kGgmlBlock / 8;
      if (from == 0 && range.end - index >= kGgmlBlock) {
        Store8(DecodeEight<Block>(bytes, 0, scale, minimum), out);
        Store8(DecodeEight<Block>(bytes, 1, scale, minimum), out + 8);
        Store8(DecodeEight<Block>(bytes, 2, scale, minimum), out + 16);
        Store8(DecodeEight<Block>(bytes, 3, scale, minimum), out + 24);
        index += kGgmlBlock;
        out += kGgmlBlock;
        continue;
      }
      for (size_t eight = from; eight < 4 && index < range.end; ++eight, index += 8, out += 8) {
        Store8(DecodeEight<Block>(bytes, eight, scale, minimum), out);
      }
    }
  }
};

// ---- dict3 ----------------------------------------------------------------------------------------------------------

struct Dict3Row {
  static HWY_INLINE void Decode(const uint8_t* unit, const RowRange& range, float* out) {
    const F8 centroids = Load8(kLloyd8Centroids);
    const uint8_t* const codes = unit + Dict3CodesOffset(range.elems);
    for (size_t index = range.begin; index < range.end;) {
      const size_t group = index / kDict3Group;
      const size_t end = std::min((group + 1) * kDict3Group, range.end);
      // Bits [6 * group, 6 * group + 6): the byte after the first is read only if the index reaches into it.
      const size_t bit = 6 * group;
      uint32_t word = unit[bit / 8];
      if (bit % 8 > 2) word |= static_cast<uint32_t>(unit[bit / 8 + 1]) << 8;
      const F8 scale = Set8(kDict3Table.scales[(word >> (bit % 8)) & 63u]);
      for (; index < end; index += 8, out += 8) {
        Store8(Mul8(Lookup8(centroids, Codes8<3>(codes + index / 8 * 3)), scale), out);
      }
    }
  }
};

// ---- all rows of a run ----------------------------------------------------------------------------------------------

template <class Row>
HWY_INLINE void DecodeRows(const Row& row, const UnitRun& run, float* out, size_t out_stride) {
  const RowRange range{run.unit_elems, run.elem_begin, run.elem_begin + run.elems};
  const uint8_t* unit = reinterpret_cast<const uint8_t*>(run.bytes);
  for (size_t token = 0; token < run.units; ++token, unit += run.stride_bytes, out += out_stride) {
    row.Decode(unit, range, out);
  }
}

template <bool kAffine>
HWY_INLINE void DecodeGrid(const CodecSpec& spec, const UnitRun& run, float* out, size_t out_stride) {
  const GridLayout layout = LayoutOf(spec, run.unit_elems);
  switch (spec.bits) {
    case 1:
      return DecodeRows(GridRow<1, kAffine>{layout}, run, out, out_stride);
    case 2:
      return DecodeRows(GridRow<2, kAffine>{layout}, run, out, out_stride);
    case 3:
      return DecodeRows(GridRow<3, kAffine>{layout}, run, out, out_stride);
    case 4:
      return DecodeRows(GridRow<4, kAffine>{layout}, run, out, out_stride);
    case 5:
      return DecodeRows(GridRow<5, kAffine>{layout}, run, out, out_stride);
    case 6:
      return DecodeRows(GridRow<6, kAffine>{layout}, run, out, out_stride);
    case 7:
      return DecodeRows(GridRow<7, kAffine>{layout}, run, out, out_stride);
    default:
      return DecodeRows(GridRow<8, kAffine>{layout}, run, out, out_stride);
  }
}

void DecodeUnitsOnTarget(const CodecSpec& spec, const UnitRun& run, float* out, size_t out_stride) {
  switch (spec.family) {
    case CodecFamily::kF32:
      return DecodeRows(F32Row(), run, out, out_stride);
    case CodecFamily::kF16:
      return DecodeRows(F16Row(), run, out, out_stride);
    case CodecFamily::kBf16:
      return DecodeRows(Bf16Row(), run, out, out_stride);
    case CodecFamily::kAffine:
      return DecodeGrid<true>(spec, run, out, out_stride);
    case CodecFamily::kAbsmax:
      return DecodeGrid<false>(spec, run, out, out_stride);
    case CodecFamily::kQ4_0:
      return DecodeRows(BlockRow<BlockQ4_0, false>(), run, out, out_stride);
    case CodecFamily::kQ4_1:
      return DecodeRows(BlockRow<BlockQ4_1, true>(), run, out, out_stride);
    case CodecFamily::kQ5_0:
      return DecodeRows(BlockRow<BlockQ5_0, false>(), run, out, out_stride);
    case CodecFamily::kQ5_1:
      return DecodeRows(BlockRow<BlockQ5_1, true>(), run, out, out_stride);
    case CodecFamily::kQ8_0:
      return DecodeRows(BlockRow<BlockQ8_0, false>(), run, out, out_stride);
    case CodecFamily::kDict3:
      return DecodeRows(Dict3Row(), run, out, out_stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(DecodeUnitsOnTarget);

void DecodeUnits(const CodecSpec& spec, const UnitRun& run, float* out, size_t out_stride) {
  KVANT_DCHECK(run.elem_begin % 8 == 0 && run.elems % 8 == 0 && run.elem_begin + run.elems <= run.unit_elems);
  HWY_DYNAMIC_DISPATCH(DecodeUnitsOnTarget)(spec, run, out, out_stride);
}

}  // namespace kvant
#endif  // HWY_ONCE
