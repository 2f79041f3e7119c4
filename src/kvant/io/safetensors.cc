#include "kvant/io/safetensors.h"

#include <cstring>
#include <utility>

#include "kvant/io/dequantize.h"
#include "kvant/io/printable.h"

namespace kvant {
namespace {

template <typename T>
std::vector<int64_t> Widen(const SafetensorsTensor& tensor) {
  std::vector<int64_t> values(tensor.elems);
  for (size_t index = 0; index < values.size(); ++index) {
    T value;
    std::memcpy(&value, tensor.bytes.data() + index * sizeof(T), sizeof(T));
    values[index] = value;
  }
  return values;
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  SafetensorsFile opened;
  KVANT_ASSIGN_OR_RETURN(opened.file_, MappedFile::Open(path));
  KVANT_ASSIGN_OR_RETURN(opened.tensors_, ParseSafetensors(path, opened.file_.bytes()));
  return opened;
}

Result<const SafetensorsTensor*> SafetensorsFile::Tensor(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return Fail("{}: tensor \"{}\" is missing", path(), Printable(name));
  return &found->second;
}

Result<std::vector<float>> SafetensorsFile::Floats(std::string_view name) const {
  KVANT_ASSIGN_OR_RETURN(const SafetensorsTensor* tensor, Tensor(name));
  GgmlType type = GgmlType::kF32;
  if (tensor->dtype == "F16") {
    type = GgmlType::kF16;
  } else if (tensor->dtype == "BF16") {
    type = GgmlType::kBF16;
  } else if (tensor->dtype != "F32") {
    return Fail("{}: tensor \"{}\" has dtype {} where F32, F16 or BF16 is needed", path(), Printable(name),
                tensor->dtype);
  }
  std::vector<float> values(tensor->elems);
  DequantizeRow(type, tensor->bytes.data(), values.size(), values.data());
  return values;
}

Result<std::vector<int64_t>> SafetensorsFile::Integers(std::string_view name) const {
  KVANT_ASSIGN_OR_RETURN(const SafetensorsTensor* tensor, Tensor(name));
  if (tensor->dtype == "I32") return Widen<int32_t>(*tensor);
  if (tensor->dtype == "I64") return Widen<int64_t>(*tensor);
  return Fail("{}: tensor \"{}\" has dtype {} where I32 or I64 is needed", path(), Printable(name), tensor->dtype);
}

}  // namespace kvant
