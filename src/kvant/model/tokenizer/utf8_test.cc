#include "kvant/model/tokenizer/utf8.h"

#include <string>

#include <gtest/gtest.h>

namespace kvant {
namespace {

std::string Utf8(uint32_t code_point) {
  const auto tail = [code_point](int shift) { return static_cast<char>(0x80 | ((code_point >> shift) & 0x3f)); };
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  if (code_point < 0x800) return {static_cast<char>(0xc0 | code_point >> 6), tail(0)};
  if (code_point < 0x10000) return {static_cast<char>(0xe0 | code_point >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code_point >> 18), tail(12), tail(6), tail(0)};
}

TEST(WellFormedPrefix, TakesEveryCodePointExceptSurrogates) {
  for (uint32_t code_point = 0; code_point < 0x120000; ++code_point) {
    const bool valid = code_point < 0x110000 && (code_point < 0xd800 || code_point > 0xdfff);
    const std::string character = Utf8(code_point);
    ASSERT_EQ(WellFormedPrefix(character), valid ? character.size() : 0) << std::hex << code_point;
    ASSERT_EQ(IllFormedPrefix(character), valid ? 0 : character.size()) << std::hex << code_point;
  }
}

// Together with the test above: nothing but the characters is taken. There are 128 of one byte, 0x800 - 0x80 of two and
// 0x10000 - 0x800 - 0x800 (surrogates) of three.
TEST(WellFormedPrefix, TakesNothingElse) {
  int count[4] = {};
  std::string text(3, '\0');
  for (int first = 0; first < 256; ++first) {
    text[0] = static_cast<char>(first);
    count[1] += WellFormedPrefix(std::string_view(text).substr(0, 1)) == 1;
    if (first < 0x80) continue;
    for (int second = 0; second < 256; ++second) {
      text[1] = static_cast<char>(second);
      count[2] += WellFormedPrefix(std::string_view(text).substr(0, 2)) == 2;
      if (first < 0xe0) continue;  // two-byte leads: counted above, the third byte begins a new character
      for (int third = 0; third < 256; ++third) {
        text[2] = static_cast<char>(third);
        count[3] += WellFormedPrefix(text) == 3;
      }
    }
  }
  EXPECT_EQ(count[1], 128);
  EXPECT_EQ(count[2], 0x800 - 0x80);
  EXPECT_EQ(count[3], 0x10000 - 0x800 - 0x800);
}

TEST(WellFormedPrefix, StopsWhereverTheBadByteIs) {
  for (size_t size = 1; size < 40; ++size) {
    for (size_t bad = 0; bad < size; ++bad) {
      std::string text(size, 'x');
      text[bad] = '\xff';
      EXPECT_EQ(WellFormedPrefix(text), bad);
    }
    EXPECT_EQ(WellFormedPrefix(std::string(size, 'x')), size);
  }
  EXPECT_EQ(WellFormedPrefix(""), 0u);
}

TEST(IllFormedPrefix, EndsAtTheNextCharacter) {
  EXPECT_EQ(IllFormedPrefix(""), 0u);
  EXPECT_EQ(IllFormedPrefix("\xe2\x82"), 2u);              // a character cut short
  EXPECT_EQ(IllFormedPrefix("\xe2\x82\xe2\x82\xac"), 2u);  // and then the whole one
  EXPECT_EQ(IllFormedPrefix("\xc0\x80z"), 2u);             // overlong NUL
}

}  // namespace
}  // namespace kvant
