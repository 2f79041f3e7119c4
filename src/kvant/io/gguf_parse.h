// The parser behind GgufFile: bytes in memory to contents. Separate from files so that tests and fuzzers can feed it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kvant/base/result.h"
#include "kvant/io/gguf.h"

namespace kvant {

// `name` is what messages call the file. The contents point into `bytes`. Time and memory are linear in bytes.size()
// (n log n in the number of keys), whatever the counts in the file claim.
Result<GgufContents> ParseGguf(const std::string& name, std::span<const std::byte> bytes);

// Bytes of a value of a fixed-size type, 0 for strings, arrays and unknown ids.
size_t GgufScalarBytes(GgufValueType type);

// Reads one value at the start of `rest` and drops its bytes from it; only for bytes that ParseGguf has validated.
GgufValue DecodeGgufValueUnchecked(GgufValueType type, std::span<const std::byte>& rest);

}  // namespace kvant
