// GPT-2's alphabet: vocabularies of byte-level BPE are text, so each of the 256 bytes is written as one printable
// character. Bytes 21-7e, a1-ac and ae-ff (hex) are their own code point; the other 68 are U+0100, U+0101, ... in byte
// order (space is U+0120 'Ġ', newline U+010A 'Ċ'). Radford et al. 2019, encoder.py `bytes_to_unicode`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvant {

// The character of a byte, as UTF-8 (one or two bytes).
std::string AlphabetCharacter(uint8_t byte);

// The bytes that `text` stands for; nothing when a character of it is outside the alphabet.
std::optional<std::string> AlphabetToBytes(std::string_view text);

}  // namespace kvant
