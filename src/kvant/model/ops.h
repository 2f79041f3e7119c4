// The elementwise operations of a transformer, on rows of activations. All act in parallel over rows and give the same
// bits for every number of rows and threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvant/base/parallel.h"

namespace kvant {

// Rows of `width` values, `stride` apart.
struct RowsView {
  float* data = nullptr;
  size_t stride = 0;
  size_t rows = 0;
  size_t width = 0;

  float* Row(size_t row) const { return data + row * stride; }
};

// out[row] = x[row] / sqrt(mean(x[row]^2) + epsilon) * weight. out may be x.
void RmsNorm(const RowsView& x, std::span<const float> weight, float epsilon, const RowsView& out, ThreadPool& pool);

// gate = silu(gate) * up, silu(g) = g / (1 + exp(-g)).
void SiluProduct(const RowsView& gate, const RowsView& up, ThreadPool& pool);

// Cosines and sines of position * frequency. The angle is one f32 product and the frequency an f32, as Hugging Face
// computes them: at position 1e5 that differs from exact arithmetic by up to 4e-3 radians, and models were trained so.
class RotaryTable {
 public:
  explicit RotaryTable(std::vector<float> frequencies) : frequencies_(std::move(frequencies)) {}

  // Extends the table to positions [0, positions).
  void Reserve(size_t positions);
  // [rotary_dim / 2] each.
  const float* Cosines(size_t position) const { return &cosines_[position * frequencies_.size()]; }
  const float* Sines(size_t position) const { return &sines_[position * frequencies_.size()]; }
  size_t pairs() const { return frequencies_.size(); }

 private:
  std::vector<float> frequencies_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

// Turns the leading 2 * table.pairs() channels of each head in place: half-split pairs (j, j + pairs). Row r holds
// heads * head_dim values of position positions[r], which the table must cover.
void ApplyRotary(const RowsView& x, size_t head_dim, std::span<const int64_t> positions, const RotaryTable& table,
                 ThreadPool& pool);

}  // namespace kvant
