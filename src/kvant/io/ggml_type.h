// The element types of GGUF tensors: ggml's numeric ids, names and block sizes (ggml.h, ggml-common.h, restated).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace kvant {

// Values are ggml's ids, part of the file format. Gaps are types that ggml has withdrawn.
enum class GgmlType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ8_1 = 9,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kQ8_K = 15,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,
  kQ1_0 = 41,
};

struct GgmlTypeInfo {
  GgmlType type;
  const char* name;      // as ggml prints it, e.g. "Q4_1"
  uint32_t block_elems;  // values of one row that are stored together; 1 for plain types
  uint32_t block_bytes;
  bool decodable;  // io/dequantize.h reads it
};

// nullptr for an id that is not in the enum.
const GgmlTypeInfo* FindGgmlType(uint32_t id);

const GgmlTypeInfo& Info(GgmlType type);

// Bytes of `elems` consecutive values; elems must be a multiple of the block.
size_t GgmlBytes(GgmlType type, size_t elems);

// "F32, F16, Q4_0, ...": the types that can be decoded, for messages.
std::string DecodableGgmlTypes();

}  // namespace kvant
