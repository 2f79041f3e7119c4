#include "kvant/io/ggml_type.h"

#include <algorithm>
#include <iterator>

#include "kvant/base/check.h"
#include "kvant/tensor/ggml_blocks.h"

namespace kvant {
namespace {

// Sizes of types without a block struct are written as sums of their fields, in stored order.
constexpr GgmlTypeInfo kTypes[] = {
    {GgmlType::kF32, "F32", 1, 4, true},
    {GgmlType::kF16, "F16", 1, 2, true},
    {GgmlType::kBF16, "BF16", 1, 2, true},
    {GgmlType::kQ4_0, "Q4_0", kGgmlBlock, sizeof(BlockQ4_0), true},
    {GgmlType::kQ4_1, "Q4_1", kGgmlBlock, sizeof(BlockQ4_1), true},
    {GgmlType::kQ5_0, "Q5_0", kGgmlBlock, sizeof(BlockQ5_0), true},
    {GgmlType::kQ5_1, "Q5_1", kGgmlBlock, sizeof(BlockQ5_1), true},
    {GgmlType::kQ8_0, "Q8_0", kGgmlBlock, sizeof(BlockQ8_0), true},
    {GgmlType::kQ4_K, "Q4_K", kGgmlSuperBlock, sizeof(BlockQ4_K), true},
    {GgmlType::kQ5_K, "Q5_K", kGgmlSuperBlock, sizeof(BlockQ5_K), true},
    {GgmlType::kQ6_K, "Q6_K", kGgmlSuperBlock, sizeof(BlockQ6_K), true},
    {GgmlType::kQ8_1, "Q8_1", 32, 2 + 2 + 32, false},
    {GgmlType::kQ2_K, "Q2_K", 256, 16 + 64 + 2 + 2, false},
    {GgmlType::kQ3_K, "Q3_K", 256, 32 + 64 + 12 + 2, false},
    {GgmlType::kQ8_K, "Q8_K", 256, 4 + 256 + 32, false},
    {GgmlType::kIQ2_XXS, "IQ2_XXS", 256, 2 + 64, false},
    {GgmlType::kIQ2_XS, "IQ2_XS", 256, 2 + 64 + 8, false},
    {GgmlType::kIQ3_XXS, "IQ3_XXS", 256, 2 + 96, false},
    {GgmlType::kIQ1_S, "IQ1_S", 256, 2 + 32 + 16, false},
    {GgmlType::kIQ4_NL, "IQ4_NL", 32, 2 + 16, false},
    {GgmlType::kIQ3_S, "IQ3_S", 256, 2 + 64 + 8 + 32 + 4, false},
    {GgmlType::kIQ2_S, "IQ2_S", 256, 2 + 64 + 8 + 8, false},
    {GgmlType::kIQ4_XS, "IQ4_XS", 256, 2 + 2 + 4 + 128, false},
    {GgmlType::kI8, "I8", 1, 1, false},
    {GgmlType::kI16, "I16", 1, 2, false},
    {GgmlType::kI32, "I32", 1, 4, false},
    {GgmlType::kI64, "I64", 1, 8, false},
    {GgmlType::kF64, "F64", 1, 8, false},
    {GgmlType::kIQ1_M, "IQ1_M", 256, 32 + 16 + 8, false},
    {GgmlType::kTQ1_0, "TQ1_0", 256, 48 + 4 + 2, false},
    {GgmlType::kTQ2_0, "TQ2_0", 256, 64 + 2, false},
    {GgmlType::kMXFP4, "MXFP4", 32, 1 + 16, false},
    {GgmlType::kNVFP4, "NVFP4", 64, 4 + 32, false},
    {GgmlType::kQ1_0, "Q1_0", 128, 2 + 16, false},
};

}  // namespace

const GgmlTypeInfo* FindGgmlType(uint32_t id) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [id](const GgmlTypeInfo& info) { return static_cast<uint32_t>(info.type) == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

const GgmlTypeInfo& Info(GgmlType type) {
  const GgmlTypeInfo* info = FindGgmlType(static_cast<uint32_t>(type));
  KVANT_CHECK(info != nullptr);
  return *info;
}

size_t GgmlBytes(GgmlType type, size_t elems) {
  const GgmlTypeInfo& info = Info(type);
  KVANT_CHECK(elems % info.block_elems == 0);
  return elems / info.block_elems * info.block_bytes;
}

std::string DecodableGgmlTypes() {
  std::string names;
  for (const GgmlTypeInfo& info : kTypes) {
    if (!info.decodable) continue;
    if (!names.empty()) names += ", ";
    names += info.name;
  }
  return names;
}

}  // namespace kvant
