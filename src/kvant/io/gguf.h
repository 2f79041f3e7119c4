// GGUF model files, versions 2 and 3, little-endian, read in place through a mapping.
//
// Layout (source: docs/gguf.md of the ggml project, restated). All integers little-endian, fields follow each other
// without padding:
//   "GGUF" | u32 version | u64 tensor count | u64 metadata count
//   metadata, each:  string key | u32 value type | value
//   tensors, each:   string name | u32 dimensions (0 to 4) | u64 per dimension | u32 ggml type | u64 offset
//   zero padding to a multiple of the alignment, then the tensor data; offsets count from there and are multiples of
//   the alignment, which is the metadata value general.alignment (a power of two) or 32.
// string: u64 bytes | UTF-8.  array: u32 element type | u64 count | elements.  bool: one byte, 0 or 1.
// Version 3 differs from 2 only in that it may be big-endian, which is refused here with a message.
//
// Everything that the file says is checked against its size before it is used: Open either gives a file whose every
// tensor and value lies inside the mapping, or one sentence that names the file, the thing and the value. Opening is
// one pass over the metadata without copies: 0.5 ms for SmolLM2's 49,152 tokens and as many merges.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/io/ggml_type.h"
#include "kvant/io/mapped_file.h"

namespace kvant {

// GGUF's ids of metadata value types.
enum class GgufValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
const char* Name(GgufValueType type);  // "u8", ..., "string", "array"

// An array as it is stored: `bytes` holds `count` encoded elements, already validated. DecodeArray gives the values.
struct GgufArray {
  GgufValueType elem_type = GgufValueType::kU8;
  uint64_t count = 0;
  std::span<const std::byte> bytes;
};

struct GgufValue {
  GgufValueType type = GgufValueType::kU8;
  // u8..u64 and i8..i64 widened, f32 widened (exact); strings and arrays point into the file.
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> value;
};

// All elements, nested arrays included (as GgufArray). 48 bytes an element: use the typed getters for large arrays.
std::vector<GgufValue> DecodeArray(const GgufArray& array);

struct GgufTensor {
  std::string_view name;
  GgmlType type = GgmlType::kF32;
  size_t rank = 0;
  // In GGUF order: dims[0] runs fastest in memory and is the row length; dims from `rank` on are 1.
  std::array<uint64_t, 4> dims = {1, 1, 1, 1};
  uint64_t elems = 1;
  std::span<const std::byte> bytes;  // into the file, aligned to the file's alignment relative to its start

  uint64_t row_elems() const { return dims[0]; }
  uint64_t rows() const { return elems / dims[0]; }
  size_t row_bytes() const { return bytes.size() / rows(); }
};

// What a GGUF file says; filled by io/gguf_parse.h.
struct GgufContents {
  uint32_t version = 0;
  uint64_t alignment = 32;
  std::map<std::string_view, GgufValue> metadata;
  std::vector<GgufTensor> tensors;  // in file order
  std::map<std::string_view, size_t> tensor_index;
};

// Move-only. All string_views, spans and pointers that it gives out point into the mapping and live as long as the
// GgufFile (they survive a move of it).
class GgufFile {
 public:
  static Result<GgufFile> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  size_t file_bytes() const { return file_.size(); }
  uint32_t version() const { return contents_.version; }
  uint64_t alignment() const { return contents_.alignment; }

  // ---- metadata: getters fail with the key in the message when it is missing, of a wrong type or out of range.
  const std::map<std::string_view, GgufValue>& metadata() const { return contents_.metadata; }
  const GgufValue* Find(std::string_view key) const;  // nullptr when absent

  Result<uint32_t> GetU32(std::string_view key) const;  // any integer type whose value fits
  Result<uint64_t> GetU64(std::string_view key) const;
  Result<float> GetF32(std::string_view key) const;  // f32, or f64 rounded
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string_view> GetString(std::string_view key) const;
  // The value, or `fallback` when the key is absent; a wrong type is an error all the same.
  Result<uint32_t> GetU32Or(std::string_view key, uint32_t fallback) const;
  Result<float> GetF32Or(std::string_view key, float fallback) const;
  Result<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Result<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;

  Result<std::vector<std::string_view>> GetStringArray(std::string_view key) const;
  Result<std::vector<float>> GetF32Array(std::string_view key) const;    // of f32 or f64
  Result<std::vector<int32_t>> GetI32Array(std::string_view key) const;  // of any integer type; every value must fit
  Result<std::vector<bool>> GetBoolArray(std::string_view key) const;

  // ---- tensors
  // Every tensor of the file, also of types that cannot be decoded.
  std::span<const GgufTensor> tensors() const { return contents_.tensors; }
  bool HasTensor(std::string_view name) const { return contents_.tensor_index.contains(name); }
  // Fails when the tensor is missing or its type is not one that io/dequantize.h decodes.
  Result<const GgufTensor*> Tensor(std::string_view name) const;

 private:
  Result<const GgufValue*> Require(std::string_view key) const;
  tl::unexpected<Error> WrongType(std::string_view key, const GgufValue& value, const char* wanted) const;

  MappedFile file_;
  GgufContents contents_;
};

}  // namespace kvant
