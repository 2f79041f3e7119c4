#include "kvant/model/tokenizer/tokenizer.h"

#include <ctime>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/rng.h"
#include "kvant/model/tokenizer/byte_alphabet.h"
#include "kvant/model/tokenizer/test_vocabulary.h"

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tokenizer Parity(const char* folder, const char* pre) {
  const std::string path = std::string(KVANT_SOURCE_DIR "/tests/parity/tokenizer/") + folder + "/tokenizer.json";
  return Tokenizer::Create(testing::VocabularyFromJson(path, pre).value()).value();
}

std::string RandomBytes(const CounterRng& rng, uint64_t* draw, size_t size) {
  std::string text(size, ' ');
  for (char& character : text) character = static_cast<char>(rng.Below((*draw)++, 256));
  return text;
}

// Letters, digits, spaces, marks and symbols of one to four bytes.
std::string RandomUtf8(const CounterRng& rng, uint64_t* draw, size_t characters) {
  static const std::vector<std::string> kCharacters = {
      "e",      "t",      "he", " ", " ", "  ",         "\n",         "\t",         "'s",     "0",
      "42",     "!",      "<|", "é", "ß", "\u0301",     "٣",          "中",         "한",     "\u3000",
      "\u180e", "\u200b", "😀",  "𝟙", "𐌰", "\U000f0000", "\U0010ffff", "\U00050000", "\u07ff", "\uffff"};
  std::string text;
  for (size_t index = 0; index < characters; ++index) text += kCharacters[rng.Below((*draw)++, kCharacters.size())];
  return text + std::string(rng.Below((*draw)++, 2), '\0');
}

TEST(Tokenizer, EncodeThenDecodeGivesBackAnyBytes) {
  const CounterRng rng(1);
  uint64_t draw = 0;
  for (const Tokenizer& tokenizer : {Parity("gpt2", "gpt-2"), Parity("smollm2", "smollm")}) {
    for (int round = 0; round < 3000; ++round) {
      const size_t size = rng.Below(draw++, 80);
      const std::string text = round % 3 == 0
                                   ? RandomBytes(rng, &draw, size)
                                   : RandomUtf8(rng, &draw, size) + (round % 3 == 1 ? RandomBytes(rng, &draw, 3) : "");
      const auto ids = tokenizer.Encode(text);
      ASSERT_EQ(tokenizer.Decode(ids).value(), text);
      ASSERT_EQ(tokenizer.UncoveredBytes(text), 0u);
      ASSERT_EQ(tokenizer.Encode(text, {.word_cache = false}), ids);
      ASSERT_EQ(tokenizer.Decode(tokenizer.Encode(text, {.parse_special = true})).value(), text);
    }
  }
}

// Far more different words than the cache has places, most of them more than once.
TEST(Tokenizer, TheWordCacheChangesNothing) {
  const CounterRng rng(2);
  uint64_t draw = 0;
  std::string text;
  while (text.size() < 2000000) {
    uint64_t word = rng.Below(draw++, 150000) * 0x9e3779b97f4a7c15u;
    text += ' ';
    for (const uint64_t letters = 3 + word % 9; text.back() == ' ' || word % letters != 0; word /= 26) {
      text += static_cast<char>('a' + word % 26);
    }
  }
  const Tokenizer tokenizer = Parity("gpt2", "gpt-2");
  const auto ids = tokenizer.Encode(text);
  EXPECT_EQ(tokenizer.Encode(text, {.word_cache = false}), ids);
  EXPECT_EQ(tokenizer.Decode(ids).value(), text);
}

TEST(Tokenizer, IllFormedBytesAreAWordOfTheirOwn) {
  const Tokenizer tokenizer = Parity("gpt2", "gpt-2");
  const std::string before = "the end  ";
  const std::string bad = "\xff\xe4\xb8";  // the last two begin 中
  const std::string after = " 's the";
  std::vector<int32_t> expected;
  for (const std::string& part : {before, bad, after}) {
    for (const int32_t id : tokenizer.Encode(part)) expected.push_back(id);
  }
  EXPECT_EQ(tokenizer.Encode(before + bad + after), expected);
}

TEST(Tokenizer, SpecialTokensAreTextUnlessAskedFor) {
  auto data = testing::ByteVocabulary({"< |"});
  data.tokens.insert(data.tokens.end(), {"<|end|>", "<|end|>now", "  two words"});
  data.token_types.assign(data.tokens.size(), static_cast<int32_t>(TokenType::kNormal));
  data.token_types[257] = data.token_types[258] = static_cast<int32_t>(TokenType::kControl);
  data.token_types[259] = static_cast<int32_t>(TokenType::kUserDefined);
  const Tokenizer tokenizer = Tokenizer::Create(data).value();
  const std::string text = "a<|end|>no<|end|>now  two words";
  EXPECT_THAT(tokenizer.Encode(text, {.parse_special = true}), ElementsAre('a', 257, 'n', 'o', 258, 259));
  EXPECT_THAT(tokenizer.Encode("<|end|>  two words"), ElementsAre(256, 'e', 'n', 'd', '|', '>', 259));
  EXPECT_TRUE(tokenizer.IsControl(257));
  EXPECT_FALSE(tokenizer.IsControl(259));
  EXPECT_EQ(tokenizer.TokenBytes(259), "  two words");
  const std::vector<int32_t> ids = {257, 'h', 'i', 259, 258};
  EXPECT_EQ(tokenizer.Decode(ids).value(), "<|end|>hi  two words<|end|>now");
  EXPECT_EQ(tokenizer.Decode(ids, {.skip_special = true}).value(), "hi  two words");
}

TEST(Tokenizer, TokenBytesAreTheBytesThatATokenStandsFor) {
  auto data = testing::ByteVocabulary({"Ġ t"});
  data.tokens.push_back("<｜User｜>");  // outside the byte alphabet
  const Tokenizer tokenizer = Tokenizer::Create(data).value();
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(tokenizer.TokenBytes(byte), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(tokenizer.TokenBytes(256), " t");
  EXPECT_EQ(tokenizer.TokenBytes(257), "<｜User｜>");
  EXPECT_EQ(tokenizer.vocab_size(), 258);
}

TEST(Tokenizer, DecodeNamesAnIdOutsideTheVocabulary) {
  const Tokenizer tokenizer = Tokenizer::Create(testing::ByteVocabulary({"a b"})).value();
  EXPECT_EQ(tokenizer.Decode({}).value(), "");
  for (const int32_t id : {257, -1, INT32_MAX, INT32_MIN}) {
    const std::vector<int32_t> ids = {'x', id};
    const auto text = tokenizer.Decode(ids);
    ASSERT_FALSE(text);
    EXPECT_THAT(text.error().message, HasSubstr("token id " + std::to_string(id) + " at position 1"));
  }
}

TEST(Tokenizer, UncoveredBytesAreCountedAndLeftOut) {
  auto data = testing::ByteVocabulary({"a b"});
  data.tokens[0x04] = "unused token";
  const Tokenizer tokenizer = Tokenizer::Create(data).value();
  const std::string text = "x\x04y\x04\x04";
  EXPECT_EQ(tokenizer.UncoveredBytes(text), 3u);
  EXPECT_THAT(tokenizer.Encode(text), ElementsAre('x', 'y'));
}

TEST(Tokenizer, ReportsWhatTheFileSaysOfSpecialIds) {
  auto data = testing::ByteVocabulary({"a b"});
  const Tokenizer without = Tokenizer::Create(data).value();
  EXPECT_EQ(without.bos(), std::nullopt);
  EXPECT_FALSE(without.add_bos());
  data.bos = 1;
  data.eos = 2;
  data.unk = 0;
  data.pad = 256;
  data.add_bos = true;
  const Tokenizer with = Tokenizer::Create(data).value();
  EXPECT_EQ(with.bos(), 1);
  EXPECT_EQ(with.eos(), 2);
  EXPECT_EQ(with.unk(), 0);
  EXPECT_EQ(with.pad(), 256);
  EXPECT_TRUE(with.add_bos());
  EXPECT_FALSE(with.add_eos());
  EXPECT_THAT(with.Encode("ab"), ElementsAre(256));  // the caller adds BOS
}

TEST(Tokenizer, CreateRefusesByName) {
  const auto good = testing::ByteVocabulary({"a b"});
  const auto message = [](const TokenizerData& data) {
    const auto tokenizer = Tokenizer::Create(data);
    return tokenizer ? std::string("accepted") : tokenizer.error().message;
  };
  EXPECT_EQ(message(good), "accepted");
  auto bad = good;
  bad.model = "llama";
  EXPECT_THAT(message(bad), HasSubstr("model \"llama\" is not supported; supported are: gpt2"));
  bad = good;
  bad.pre = "";
  EXPECT_THAT(message(bad), HasSubstr("pre-tokenizer \"\" is not supported; supported are: gpt-2, smollm"));
  bad = good;
  bad.tokens.clear();
  EXPECT_THAT(message(bad), HasSubstr("no tokens"));
  bad = good;
  bad.merges[0] = "a zz";
  EXPECT_THAT(message(bad), HasSubstr("\"zz\""));
  bad = good;
  bad.add_space_prefix = true;
  EXPECT_THAT(message(bad), HasSubstr("add_space_prefix"));
  bad = good;
  bad.token_types.assign(3, 1);
  EXPECT_THAT(message(bad), HasSubstr("257 tokens but 3 token types"));
  for (const int32_t type : {0, 7, -1}) {
    bad.token_types.assign(257, 1);
    bad.token_types[9] = type;
    EXPECT_THAT(message(bad), HasSubstr("token 9 has type " + std::to_string(type)));
  }
  for (const int32_t id : {-1, 257}) {
    for (const auto& [field, name] :
         {std::pair(&TokenizerData::bos, "bos"), std::pair(&TokenizerData::eos, "eos"),
          std::pair(&TokenizerData::unk, "unknown"), std::pair(&TokenizerData::pad, "padding")}) {
      bad = good;
      bad.*field = id;
      EXPECT_THAT(message(bad), HasSubstr(std::string(name) + "_token_id is " + std::to_string(id)));
    }
  }
}

// A merge that scans the whole word each time would take hours here.
TEST(Tokenizer, LongWordsTakeSeconds) {
  const Tokenizer tokenizer = Parity("gpt2", "gpt-2");
  const CounterRng rng(4);
  std::string letters(2000000, ' ');
  for (size_t index = 0; index < letters.size(); ++index)
    letters[index] = static_cast<char>('a' + rng.Below(index, 26));
  for (const std::string& word : {std::string(2000000, 'a'), letters, std::string(2000000, ' '),
                                  std::string(2000000, '\0'), std::string(2000000, '\x80')}) {
    const std::clock_t start = std::clock();  // processor time: a busy machine does not count
    const auto ids = tokenizer.Encode(word);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_EQ(tokenizer.Decode(ids).value(), word);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr double kLimit = 30;
#else
    constexpr double kLimit = 2;
#endif
    EXPECT_LT(seconds, kLimit);
  }
}

}  // namespace
}  // namespace kvant
