#include "kvant/model/weights.h"

#include "kvant/io/dequantize.h"

namespace kvant {

void WeightMatrix::Expand(size_t row, float* out) const {
  size_t stored = row;
  if (order == RowOrder::kInterleavedPairs) {
    const size_t channel = row % head_dim;
    const size_t half = head_dim / 2;
    stored = row - channel + (channel < half ? 2 * channel : 2 * (channel - half) + 1);
  }
  DequantizeRow(type, bytes + stored * row_bytes, columns, out);
}

ProductTerm WeightMatrix::Term(float* out, size_t out_stride, bool add) const {
  return {[this](size_t row, float* values) { Expand(row, values); }, rows, out, out_stride, add};
}

ProductTerm WeightMatrix::Term(float* out, size_t out_stride, size_t first, size_t count) const {
  return {[this, first](size_t row, float* values) { Expand(first + row, values); }, count, out, out_stride, false};
}

Result<WeightMatrix> WeightLoader::Matrix(const std::string& name, size_t rows, size_t columns) const {
  KVANT_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_.Tensor(name));
  if (tensor->rank != 2 || tensor->dims[0] != columns || tensor->dims[1] != rows) {
    return Fail("{}: tensor {} is {} x {} (rank {}), but the metadata says {} x {}: the file is not a consistent model",
                file_.path(), name, tensor->dims[1], tensor->dims[0], tensor->rank, rows, columns);
  }
  return WeightMatrix{tensor->type, tensor->bytes.data(), rows, columns, tensor->row_bytes()};
}

Result<WeightMatrix> WeightLoader::HeadMatrix(const std::string& name, size_t rows, size_t columns,
                                              size_t head_dim) const {
  KVANT_ASSIGN_OR_RETURN(WeightMatrix matrix, Matrix(name, rows, columns));
  matrix.order = RowOrder::kInterleavedPairs;
  matrix.head_dim = head_dim;
  return matrix;
}

Result<std::vector<float>> WeightLoader::Vector(const std::string& name, size_t elems) const {
  KVANT_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_.Tensor(name));
  if (tensor->rank != 1 || tensor->elems != elems) {
    return Fail("{}: tensor {} has {} values (rank {}), but the metadata says {}: the file is not a consistent model",
                file_.path(), name, tensor->elems, tensor->rank, elems);
  }
  std::vector<float> values(elems);
  DequantizeRow(tensor->type, tensor->bytes.data(), elems, values.data());
  return values;
}

}  // namespace kvant
