#include "kvant/model/tokenizer/byte_alphabet.h"

#include <array>

namespace kvant {
namespace {

constexpr int kCodePoints = 256 + 68;  // the highest is U+0143

struct Alphabet {
  std::array<uint16_t, 256> to_code_point;
  std::array<int16_t, kCodePoints> to_byte;  // -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet{};
  for (auto& byte : alphabet.to_byte) byte = -1;
  uint16_t next = 256;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    const uint16_t code_point = printable ? static_cast<uint16_t>(byte) : next++;
    alphabet.to_code_point[byte] = code_point;
    alphabet.to_byte[code_point] = static_cast<int16_t>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();
static_assert(kAlphabet.to_code_point[' '] == 0x120 && kAlphabet.to_code_point['\n'] == 0x10a);
static_assert(kAlphabet.to_code_point[0xad] == kCodePoints - 1);

}  // namespace

std::string AlphabetCharacter(uint8_t byte) {
  const unsigned code_point = kAlphabet.to_code_point[byte];
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | (code_point >> 6)), static_cast<char>(0x80 | (code_point & 0x3f))};
}

std::optional<std::string> AlphabetToBytes(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t position = 0; position < text.size(); ++position) {
    unsigned code_point = static_cast<unsigned char>(text[position]);
    if (code_point >= 0x80) {
      if ((code_point & 0xe0) != 0xc0 || position + 1 == text.size()) return std::nullopt;
      const unsigned next = static_cast<unsigned char>(text[++position]);
      if ((next & 0xc0) != 0x80) return std::nullopt;
      code_point = ((code_point & 0x1f) << 6) | (next & 0x3f);
      if (code_point < 0x80) return std::nullopt;  // overlong
    }
    if (code_point >= kCodePoints || kAlphabet.to_byte[code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.to_byte[code_point]));
  }
  return bytes;
}

}  // namespace kvant
