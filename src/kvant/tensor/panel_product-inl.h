// The one f32 micro-kernel that weights, scores and values go through, for every SIMD target.
//
// Every output is one chain of fused multiply-adds over k in ascending order, started at zero. The bits of an output
// therefore depend neither on how many rows stand beside it nor on the vector width, so chunking and threads cannot
// change a result, and AVX2 and AVX-512 agree to the last bit (SCALAR has no fused multiply-add and differs by
// rounding). oneDNN's sgemm does not have this property: docs/decisions/0001-own-matrix-product.md.

// Per-target include guard, toggled by foreach_target.h.
#if defined(KVANT_TENSOR_PANEL_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KVANT_TENSOR_PANEL_PRODUCT_INL_H_
#undef KVANT_TENSOR_PANEL_PRODUCT_INL_H_
#else
#define KVANT_TENSOR_PANEL_PRODUCT_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using PanelTag = hn::CappedTag<float, 16>;

// Columns of one panel. Fixed, so that packed panels do not depend on the vector width.
inline constexpr size_t kPanelColumns = 16;
inline constexpr size_t kPanelVectors = kPanelColumns / hn::MaxLanes(PanelTag());

// Register tile: rows x (panels * 16) columns. AVX-512 has 32 registers: 12 x 2 accumulators of 16 lanes leave room
// for two columns of B and the broadcast; AVX2 has 16: 6 x 2 of 8 lanes. Fewer would leave the FMA units waiting for
// their own latency (4 cycles x 2 units = 8 chains at least). SCALAR keeps its 2 x 16 sums in memory whatever the tile
// is; a small one keeps the unrolled code small.
#if HWY_TARGET <= HWY_AVX3
inline constexpr size_t kTileRows = 12;
inline constexpr size_t kTilePanels = 2;
#elif HWY_TARGET == HWY_SCALAR
inline constexpr size_t kTileRows = 2;
inline constexpr size_t kTilePanels = 1;
#else
inline constexpr size_t kTileRows = 6;
inline constexpr size_t kTilePanels = 1;
#endif

struct PanelOperands {
  const float* a = nullptr;  // [rows][k], row-major
  size_t a_stride = 0;
  const float* b = nullptr;  // panel p starts at b + p * b_panel_stride; its row k at + k * b_stride
  size_t b_stride = 0;
  size_t b_panel_stride = 0;
  float* c = nullptr;  // [rows][panels * 16]
  size_t c_stride = 0;
  size_t depth = 0;  // terms of each sum
};

enum class PanelStore { kReplace, kAdd };

template <size_t kRows, size_t kPanels, PanelStore kStore>
HWY_INLINE void TileProduct(const PanelOperands& op) {
  const PanelTag d;
  using V = hn::Vec<PanelTag>;
  constexpr size_t kLanes = hn::MaxLanes(PanelTag());
  constexpr size_t kColumns = kPanels * kPanelVectors;
  V sum[kRows][kColumns];
#pragma GCC unroll 16
  for (size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 16
    for (size_t column = 0; column < kColumns; ++column) sum[row][column] = hn::Zero(d);
  }
  const float* HWY_RESTRICT a = op.a;
  const float* HWY_RESTRICT b = op.b;
  const size_t a_stride = op.a_stride;
  const size_t b_stride = op.b_stride;
  const size_t b_panel_stride = op.b_panel_stride;
  const size_t depth = op.depth;
  for (size_t k = 0; k < depth; ++k) {
    V column_values[kColumns];
#pragma GCC unroll 16
    for (size_t column = 0; column < kColumns; ++column) {
      const size_t panel = column / kPanelVectors;
      const size_t vector = column % kPanelVectors;
      column_values[column] = hn::LoadU(d, b + panel * b_panel_stride + vector * kLanes);
    }
#pragma GCC unroll 16
    for (size_t row = 0; row < kRows; ++row) {
      const V broadcast = hn::Set(d, a[row * a_stride + k]);
#pragma GCC unroll 16
      for (size_t column = 0; column < kColumns; ++column) {
        sum[row][column] = hn::MulAdd(broadcast, column_values[column], sum[row][column]);
      }
    }
    b += b_stride;
  }
#pragma GCC unroll 16
  for (size_t row = 0; row < kRows; ++row) {
    float* HWY_RESTRICT c = op.c + row * op.c_stride;
#pragma GCC unroll 16
    for (size_t column = 0; column < kColumns; ++column) {
      const V value =
          kStore == PanelStore::kAdd ? hn::Add(hn::LoadU(d, c + column * kLanes), sum[row][column]) : sum[row][column];
      hn::StoreU(value, d, c + column * kLanes);
    }
  }
}

template <size_t kPanels, PanelStore kStore, size_t kRows = kTileRows>
HWY_NOINLINE void TileProductRows(size_t rows, const PanelOperands& op) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return TileProductRows<kPanels, kStore, kRows - 1>(rows, op);
  }
  TileProduct<kRows, kPanels, kStore>(op);
}

// c[rows][panels * 16] = or += a[rows][depth] * b. rows <= kTileRows.
template <PanelStore kStore>
HWY_INLINE void RowBlockProduct(size_t rows, size_t panels, PanelOperands op) {
  for (; panels >= kTilePanels; panels -= kTilePanels) {
    TileProductRows<kTilePanels, kStore>(rows, op);
    op.b += kTilePanels * op.b_panel_stride;
    op.c += kTilePanels * kPanelColumns;
  }
  if constexpr (kTilePanels > 1) {
    if (panels > 0) TileProductRows<1, kStore>(rows, op);
  }
}

// Transposes src[16][depth] (rows src_stride apart) into dst[depth][16]: the packed form of one panel of B.
HWY_INLINE void PackPanel(const float* HWY_RESTRICT src, size_t src_stride, size_t depth, size_t dst_stride,
                          float* HWY_RESTRICT dst) {
  size_t k = 0;
#if HWY_TARGET != HWY_SCALAR  // which has no vectors of four
  const hn::FixedTag<float, 4> d4;
  const hn::FixedTag<double, 2> d2;
  for (; k + 4 <= depth; k += 4) {
#pragma GCC unroll 4
    for (size_t column = 0; column < kPanelColumns; column += 4) {
      const auto r0 = hn::LoadU(d4, src + (column + 0) * src_stride + k);
      const auto r1 = hn::LoadU(d4, src + (column + 1) * src_stride + k);
      const auto r2 = hn::LoadU(d4, src + (column + 2) * src_stride + k);
      const auto r3 = hn::LoadU(d4, src + (column + 3) * src_stride + k);
      const auto low01 = hn::BitCast(d2, hn::InterleaveLower(d4, r0, r1));
      const auto low23 = hn::BitCast(d2, hn::InterleaveLower(d4, r2, r3));
      const auto high01 = hn::BitCast(d2, hn::InterleaveUpper(d4, r0, r1));
      const auto high23 = hn::BitCast(d2, hn::InterleaveUpper(d4, r2, r3));
      float* out = dst + k * dst_stride + column;
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, low01, low23)), d4, out);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, low01, low23)), d4, out + dst_stride);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveLower(d2, high01, high23)), d4, out + 2 * dst_stride);
      hn::StoreU(hn::BitCast(d4, hn::InterleaveUpper(d2, high01, high23)), d4, out + 3 * dst_stride);
    }
  }
#endif
  for (; k < depth; ++k) {
    for (size_t column = 0; column < kPanelColumns; ++column)
      dst[k * dst_stride + column] = src[column * src_stride + k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
