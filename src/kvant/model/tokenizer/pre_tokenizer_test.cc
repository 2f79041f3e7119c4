#include "kvant/model/tokenizer/pre_tokenizer.h"

#include <cctype>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Words(const PreTokenizer& pre_tokenizer, std::string_view text) {
  std::vector<std::string> words;
  pre_tokenizer.Split(text, [&words](std::string_view word) { words.emplace_back(word); });
  return words;
}

std::vector<std::string> Words(const char* name, std::string_view text) {
  return Words(PreTokenizer::Create(name).value(), text);
}

TEST(PreTokenizer, RefusesOtherNamesAndListsItsOwn) {
  const auto other = PreTokenizer::Create("klingon");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("\"klingon\""));
  EXPECT_THAT(other.error().message, HasSubstr("gpt-2, smollm"));
}

TEST(PreTokenizer, Gpt2Words) {
  EXPECT_THAT(Words("gpt-2", ""), ElementsAre());
  EXPECT_THAT(Words("gpt-2", "I'll pay 1234$, he'Ll not"),
              ElementsAre("I", "'ll", " pay", " 1234", "$,", " he", "'", "Ll", " not"));
  EXPECT_THAT(Words("gpt-2", "a  b\n\n c  "), ElementsAre("a", " ", " b", "\n\n", " c", "  "));
}

TEST(PreTokenizer, SmollmTakesDigitsOutFirst) {
  // The space before a digit has nothing to stick to any more, and white space before a digit ends its text.
  EXPECT_THAT(Words("smollm", "in 1984  5x ½"), ElementsAre("in", " ", "1", "9", "8", "4", "  ", "5", "x", " ", "½"));
}

// White_Space of Unicode: U+0085 and U+3000 have it, U+180E lost it in 6.3, U+001C and U+200B never had it. A character
// that is neither space, letter nor number joins the '!' before it.
TEST(PreTokenizer, WhiteSpaceIsUnicodes) {
  for (const char* space : {"\t", "\v", "\f", "\r", "\u0085", "\u00a0", "\u1680", "\u2000", "\u200a", "\u2028",
                            "\u2029", "\u202f", "\u205f", "\u3000"}) {
    EXPECT_THAT(Words("gpt-2", std::string("!") + space), ElementsAre("!", space));
  }
  for (const char* other : {"\x1c", "\x1f", "\u180e", "\u200b", "\u2060", "\ufeff"}) {
    EXPECT_THAT(Words("gpt-2", std::string("!") + other), ElementsAre(std::string("!") + other));
  }
}

// The pattern's alternatives written out by hand, for ASCII.
std::vector<std::string> Gpt2ByHand(const std::string& text) {
  const auto kind = [&text](size_t at) {
    const auto character = static_cast<unsigned char>(text[at]);
    return std::isspace(character) ? 's' : std::isalpha(character) ? 'l' : std::isdigit(character) ? 'n' : 'o';
  };
  std::vector<std::string> words;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = 0;
    for (const char* suffix : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (end == 0 && text.compare(at, std::string(suffix).size(), suffix) == 0) end = at + std::string(suffix).size();
    }
    const size_t body = text[at] == ' ' && at + 1 < text.size() && kind(at + 1) != 's' ? at + 1 : at;
    if (end == 0 && kind(body) != 's') {
      end = body;
      while (end < text.size() && kind(end) == kind(body)) ++end;
    }
    if (end == 0) {
      end = at;
      while (end < text.size() && kind(end) == 's') ++end;
      if (end < text.size() && end > at + 1) --end;
    }
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

TEST(PreTokenizer, AgreesWithTheDefinitionWrittenByHand) {
  const PreTokenizer gpt2 = PreTokenizer::Create("gpt-2").value();
  const PreTokenizer interpreted = PreTokenizer::Create("gpt-2", false).value();
  const PreTokenizer smollm = PreTokenizer::Create("smollm").value();
  const CounterRng rng(3);
  uint64_t draw = 0;
  const std::string characters = "  \n\t'''stmdrevlabZ019!?_\x01";
  for (int round = 0; round < 20000; ++round) {
    std::string text(rng.Below(draw++, 24), ' ');
    for (char& character : text) character = characters[rng.Below(draw++, characters.size())];
    ASSERT_EQ(Words(gpt2, text), Gpt2ByHand(text)) << text;
    ASSERT_EQ(Words(interpreted, text), Gpt2ByHand(text)) << text;
    // smollm: digits alone, the stretches between them as texts of their own.
    std::vector<std::string> expected;
    std::string stretch;
    const auto flush = [&] {
      for (const std::string& word : Gpt2ByHand(stretch)) expected.push_back(word);
      stretch.clear();
    };
    for (const char character : text) {
      if (!std::isdigit(static_cast<unsigned char>(character))) {
        stretch += character;
        continue;
      }
      flush();
      expected.emplace_back(1, character);
    }
    flush();
    ASSERT_EQ(Words(smollm, text), expected) << text;
  }
}

TEST(PreTokenizer, LongRunsAreOneWord) {
  for (const bool allow_jit : {true, false}) {
    const PreTokenizer pre_tokenizer = PreTokenizer::Create("smollm", allow_jit).value();
    for (const char* run : {"a", " ", "!", "\n", "é", "\u3000"}) {
      std::string text;
      while (text.size() < 3000000) text += run;
      EXPECT_EQ(Words(pre_tokenizer, text), std::vector<std::string>{text}) << run;
    }
  }
}

}  // namespace
}  // namespace kvant
