// Rows of GGUF weights to f32, exactly as ggml defines them.
#pragma once

#include <cstddef>

#include "kvant/io/ggml_type.h"

namespace kvant {

// Expands `elems` values of one row to out[0 .. elems).
//   type   decodable (Info(type).decodable)
//   row    GgmlBytes(type, elems) bytes, at any alignment
//   elems  a multiple of the type's block (256 for K-quants, 32 for the other block types)
// Arithmetic is f32 in the order of ggml's scalar functions, product and sum rounded apart: every SIMD target gives
// the bits of reference::DequantizeRow (a NaN stays a NaN, with any payload; only a broken file holds one).
// Writes nothing past out + elems and reads nothing past the row.
// Cost: 10 to 20 G values/s per core with AVX2 and an output that stays in the L2 cache (EPYC, GCC 12.2, shared
// machine; Q4_1 14, Q5_K 9.5, Q6_K 12): dequantize_bench measures every type on every target.
void DequantizeRow(GgmlType type, const std::byte* row, size_t elems, float* out);

namespace reference {
// The same, one value at a time and written to be read.
void DequantizeRow(GgmlType type, const std::byte* row, size_t elems, float* out);
}  // namespace reference

}  // namespace kvant
