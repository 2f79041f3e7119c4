#include "kvant/model/tokenizer/utf8.h"

#include <cstdint>
#include <cstring>

namespace kvant {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080u;

bool IsContinuation(unsigned char byte) { return (byte & 0xc0u) == 0x80u; }

// Bytes of the well-formed character at the start of `text`, 0 when there is none; `text` is not empty.
size_t CharacterBytes(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned lead = bytes[0];
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte's range excludes overlong forms (e0, f0), surrogates (ed) and values above U+10FFFF (f4).
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (bytes[1] < low || bytes[1] > high) return 0;
  for (size_t index = 2; index < length; ++index) {
    if (!IsContinuation(bytes[index])) return 0;
  }
  return length;
}

}  // namespace

size_t WellFormedPrefix(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    uint64_t word;
    while (position + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + position, sizeof(word));
      if (word & kHighBits) break;
      position += sizeof(word);
    }
    if (position == text.size()) break;
    const size_t length = CharacterBytes(text.substr(position));
    if (length == 0) break;
    position += length;
  }
  return position;
}

size_t IllFormedPrefix(std::string_view text) {
  size_t position = 0;
  while (position < text.size() && CharacterBytes(text.substr(position)) == 0) ++position;
  return position;
}

}  // namespace kvant
