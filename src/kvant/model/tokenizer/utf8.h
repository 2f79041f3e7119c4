// Well-formedness of UTF-8 as the Unicode standard defines it (Unicode 15.0, table 3-7): no overlong forms, no
// surrogates, nothing above U+10FFFF. One pass, no tables; eight ASCII bytes a step.
#pragma once

#include <cstddef>
#include <string_view>

namespace kvant {

// Bytes of the longest prefix of `text` that is well-formed UTF-8.
size_t WellFormedPrefix(std::string_view text);

// Bytes of the longest prefix in which no byte begins a well-formed character: what has to be skipped before
// WellFormedPrefix can go on. 0 when `text` is empty or begins with a well-formed character.
size_t IllFormedPrefix(std::string_view text);

}  // namespace kvant
