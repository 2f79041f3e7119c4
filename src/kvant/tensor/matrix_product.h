// f32 products of activations with rows that are expanded on the way: y = x * W^T.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "kvant/base/parallel.h"
#include "kvant/tensor/worker_scratch.h"

namespace kvant {

// Writes row `row` of W as f32 to out[depth]. Called from worker threads, for each row once per product.
using ExpandRow = std::function<void(size_t row, float* out)>;

struct ProductTerm {
  ExpandRow expand;      // gives W, [columns][depth]
  size_t columns = 0;    // rows of W = values of y per row of x
  float* out = nullptr;  // y: [rows][columns], rows out_stride apart
  size_t out_stride = 0;
  bool add = false;  // y += x * W^T (a residual stream) in place of y =
};

struct ProductInput {
  const float* x = nullptr;  // [rows][depth], rows x_stride apart
  size_t x_stride = 0;       // use PaddedStride(depth): powers of two make rows collide in the cache
  size_t rows = 0;
  size_t depth = 0;
};

inline size_t PaddedStride(size_t elems) { return (elems + 15) / 16 * 16 + 16; }

// All terms share x (q, k and v; gate and up) so that their panels fill the workers together. W is expanded panel by
// panel: each row once per call, into scratch of at most a few hundred KB per worker. Each y is one chain of fused
// multiply-adds over depth in ascending order: the same bits for every number of rows and threads.
// Cost: rows * columns * depth * 2 FLOP, plus one expansion of W.
void MatrixProduct(const ProductInput& input, std::span<const ProductTerm> terms, ThreadPool& pool,
                   WorkerScratch& scratch);

}  // namespace kvant
