// Safetensors files, read in place through a mapping.
//
// Layout (source: the format section of the safetensors project's README, restated):
//   u64 header bytes n, little-endian | n bytes of JSON, starting with '{' | data
// The JSON object has one entry per tensor, {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, offsets
// counted from the start of the data, and optionally "__metadata__", an object of strings. Values are little-endian,
// the last dimension runs fastest. Tensors cover the data without gap or overlap.
//
// Every length and offset is checked before use; Open gives a file whose tensors all lie inside the mapping or one
// sentence that names the file, the tensor and the value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/io/mapped_file.h"

namespace kvant {

struct SafetensorsTensor {
  std::string dtype;  // as in the file: "F32", "BF16", "I64", ...
  std::vector<uint64_t> shape;
  uint64_t elems = 1;                // product of the shape; 0 is allowed
  std::span<const std::byte> bytes;  // at any alignment
};

using SafetensorsIndex = std::map<std::string, SafetensorsTensor, std::less<>>;

// Move-only; spans into the file live as long as it does.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const SafetensorsIndex& tensors() const { return tensors_; }
  bool HasTensor(std::string_view name) const { return tensors_.contains(name); }
  // Fails when missing.
  Result<const SafetensorsTensor*> Tensor(std::string_view name) const;

  // All values of a tensor, row-major. Fail when it is missing or has another dtype.
  Result<std::vector<float>> Floats(std::string_view name) const;      // of F32, F16 or BF16, exact
  Result<std::vector<int64_t>> Integers(std::string_view name) const;  // of I32 or I64

 private:
  MappedFile file_;
  SafetensorsIndex tensors_;
};

// The parser behind it, for bytes in memory: `name` is what messages call the file.
Result<SafetensorsIndex> ParseSafetensors(const std::string& name, std::span<const std::byte> bytes);

}  // namespace kvant
