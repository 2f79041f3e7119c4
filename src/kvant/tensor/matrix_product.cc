#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/tensor/matrix_product.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <vector>

#include "kvant/base/check.h"
#include "kvant/tensor/matrix_product.h"
#include "kvant/tensor/panel_product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {

// y[:, first .. first + count) of one term. scratch: panels [count / 16][depth][16], then 16 expanded rows.
void ProductOfRows(const ProductInput& input, const ProductTerm& term, size_t first, size_t count, float* scratch) {
  const size_t depth = input.depth;
  const size_t panels = (count + kPanelColumns - 1) / kPanelColumns;
  float* rows = scratch + panels * depth * kPanelColumns;
  const size_t rows_stride = depth + 16;  // off the power of two, for the transposition's strided loads
  for (size_t panel = 0; panel < panels; ++panel) {
    const size_t present = std::min(kPanelColumns, count - panel * kPanelColumns);
    for (size_t row = 0; row < kPanelColumns; ++row) {
      if (row < present) {
        term.expand(first + panel * kPanelColumns + row, rows + row * rows_stride);
      } else {
        std::fill_n(rows + row * rows_stride, depth, 0.0f);
      }
    }
    PackPanel(rows, rows_stride, depth, kPanelColumns, scratch + panel * depth * kPanelColumns);
  }
  const size_t whole_panels = count / kPanelColumns;
  const size_t tail = count % kPanelColumns;
  for (size_t row = 0; row < input.rows; row += kTileRows) {
    const size_t block = std::min(kTileRows, input.rows - row);
    PanelOperands op;
    op.a = input.x + row * input.x_stride;
    op.a_stride = input.x_stride;
    op.b = scratch;
    op.b_stride = kPanelColumns;
    op.b_panel_stride = depth * kPanelColumns;
    op.c = term.out + row * term.out_stride + first;
    op.c_stride = term.out_stride;
    op.depth = depth;
    if (term.add) {
      RowBlockProduct<PanelStore::kAdd>(block, whole_panels, op);
    } else {
      RowBlockProduct<PanelStore::kReplace>(block, whole_panels, op);
    }
    if (tail != 0) {
      float last[kTileRows * kPanelColumns];
      float* out = op.c + whole_panels * kPanelColumns;
      op.b += whole_panels * op.b_panel_stride;
      op.c = last;
      op.c_stride = kPanelColumns;
      RowBlockProduct<PanelStore::kReplace>(block, 1, op);
      for (size_t line = 0; line < block; ++line) {
        for (size_t column = 0; column < tail; ++column) {
          float& value = out[line * term.out_stride + column];
          value = (term.add ? value : 0.0f) + last[line * kPanelColumns + column];
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(ProductOfRows);

namespace {
// Rows of W that one task expands and multiplies: two register tiles of AVX-512, small enough that 576 rows make 18
// tasks for two workers, large enough that x streams from the L2 or L3 cache at 6 GB/s only at 100 GFLOP/s.
constexpr size_t kTaskRows = 32;

struct Task {
  const ProductTerm* term;
  size_t first;
  size_t count;
};
}  // namespace

void MatrixProduct(const ProductInput& input, std::span<const ProductTerm> terms, ThreadPool& pool,
                   WorkerScratch& scratch) {
  if (input.rows == 0) return;
  std::vector<Task> tasks;
  for (const ProductTerm& term : terms) {
    for (size_t first = 0; first < term.columns; first += kTaskRows) {
      tasks.push_back({&term, first, std::min(kTaskRows, term.columns - first)});
    }
  }
  const size_t elems = kTaskRows * input.depth + 16 * (input.depth + 16);
  scratch.Reserve(pool.threads(), elems);
  const auto product = HWY_DYNAMIC_DISPATCH(ProductOfRows);
  pool.For(tasks.size(), [&](size_t index, size_t worker) {
    const Task& task = tasks[index];
    product(input, *task.term, task.first, task.count, scratch.ForWorker(worker));
  });
}

}  // namespace kvant
#endif  // HWY_ONCE
