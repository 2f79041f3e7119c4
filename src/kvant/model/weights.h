// Weights as they lie in the mapped file, and how a row of one becomes f32.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/io/gguf.h"
#include "kvant/tensor/matrix_product.h"

namespace kvant {

// The order of a matrix's rows in the file.
enum class RowOrder {
  kPlain,
  // GGUF's Llama-family q and k: within each head, row 2j holds what Hugging Face calls row j, and row 2j + 1 its row
  // j + head_dim / 2. Rows are put back while they are expanded, so rotary pairs are half-split everywhere above.
  kInterleavedPairs,
};

// [rows][columns], row-major, in the file's own format; never copied or requantized.
struct WeightMatrix {
  GgmlType type = GgmlType::kF32;
  const std::byte* bytes = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  size_t row_bytes = 0;
  RowOrder order = RowOrder::kPlain;
  size_t head_dim = 0;  // kInterleavedPairs only

  // Expands row `row` (in Hugging Face's order) to out[columns].
  void Expand(size_t row, float* out) const;
  // y (=, or += if add) x * W^T for all rows, or for rows [first, first + count).
  ProductTerm Term(float* out, size_t out_stride, bool add = false) const;
  ProductTerm Term(float* out, size_t out_stride, size_t first, size_t count) const;
};

// Looks weights up by name and checks their shapes; the error names the tensor and both shapes.
class WeightLoader {
 public:
  explicit WeightLoader(const GgufFile& file) : file_(file) {}

  Result<WeightMatrix> Matrix(const std::string& name, size_t rows, size_t columns) const;
  Result<WeightMatrix> HeadMatrix(const std::string& name, size_t rows, size_t columns, size_t head_dim) const;
  Result<std::vector<float>> Vector(const std::string& name, size_t elems) const;
  bool Has(const std::string& name) const { return file_.HasTensor(name); }

 private:
  const GgufFile& file_;
};

}  // namespace kvant
