#include "kvant/model/tokenizer/bpe.h"

#include <algorithm>
#include <limits>
#include <map>
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

std::vector<int32_t> Encode(const Bpe& bpe, std::string_view word) {
  BpeScratch scratch;
  std::vector<int32_t> ids;
  bpe.Append(word, &scratch, &ids);
  return ids;
}

// The definition: strings, a map, and a scan for the lowest rank (leftmost first) before every single merge.
std::vector<int32_t> ByDefinition(const TokenizerData& data, std::string_view word) {
  std::map<std::string, size_t> rank;
  for (size_t index = 0; index < data.merges.size(); ++index) rank[data.merges[index]] = index;
  std::vector<std::string> symbols;
  for (const char character : word) symbols.push_back(AlphabetCharacter(static_cast<uint8_t>(character)));
  for (;;) {
    size_t best = 0;
    size_t best_rank = std::numeric_limits<size_t>::max();
    for (size_t index = 0; index + 1 < symbols.size(); ++index) {
      const auto found = rank.find(symbols[index] + " " + symbols[index + 1]);
      if (found == rank.end() || found->second >= best_rank) continue;
      best = index;
      best_rank = found->second;
    }
    if (best_rank == std::numeric_limits<size_t>::max()) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + best + 1);
  }
  std::vector<int32_t> ids;
  for (const std::string& symbol : symbols) {
    ids.push_back(
        static_cast<int32_t>(std::find(data.tokens.begin(), data.tokens.end(), symbol) - data.tokens.begin()));
  }
  return ids;
}

TEST(ByteAlphabet, IsAOneToOneMapOfBytes) {
  std::string all;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) {
    all.push_back(static_cast<char>(byte));
    text += AlphabetCharacter(static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(AlphabetToBytes(text), all);
  EXPECT_EQ(AlphabetCharacter('~'), "~");
  EXPECT_EQ(AlphabetCharacter(' '), "Ġ");
  EXPECT_EQ(AlphabetCharacter('\n'), "Ċ");
  EXPECT_EQ(AlphabetCharacter(0xad), "Ń");
  for (const char* outside : {" ", "\n", "\u00ad", "\u0144", "｜", "\xc4", "\xc1\x81", "a\x80"}) {
    EXPECT_EQ(AlphabetToBytes(outside), std::nullopt) << outside;
  }
}

TEST(Bpe, MergesByRankNotByPosition) {
  const auto data = testing::ByteVocabulary({"b c", "a b", "a bc", "abc abc"});
  const Bpe bpe = Bpe::Create(data.tokens, data.merges).value();
  EXPECT_THAT(Encode(bpe, "abc"), ElementsAre(258));
  EXPECT_THAT(Encode(bpe, "abab"), ElementsAre(257, 257));
  EXPECT_THAT(Encode(bpe, "abcabcab"), ElementsAre(259, 257));
  EXPECT_THAT(Encode(bpe, ""), ElementsAre());
  EXPECT_THAT(Encode(bpe, std::string("a\0b", 3)), ElementsAre('a', 0, 'b'));
}

// Words around and above the size where the heap takes over, over few letters so that ties and chains of merges abound.
TEST(Bpe, ShortAndLongWordsFollowTheDefinition) {
  const CounterRng rng(5);
  uint64_t draw = 0;
  size_t merged = 0;
  for (int vocabulary = 0; vocabulary < 30; ++vocabulary) {
    std::vector<std::string> symbols = {"a", "b", "c"};
    std::vector<std::string> merges;
    std::vector<std::string> results;
    while (merges.size() < 12) {
      const std::string left = symbols[rng.Below(draw++, symbols.size())];
      const std::string right = symbols[rng.Below(draw++, symbols.size())];
      if (std::find(results.begin(), results.end(), left + right) != results.end()) continue;
      merges.push_back(left + " " + right);
      results.push_back(left + right);
      symbols.push_back(left + right);
    }
    const auto data = testing::ByteVocabulary(merges);
    const Bpe bpe = Bpe::Create(data.tokens, data.merges).value();
    for (int round = 0; round < 40; ++round) {
      std::string word(rng.Below(draw++, round % 4 == 0 ? 300 : 60), ' ');
      for (char& character : word) character = static_cast<char>('a' + rng.Below(draw++, 3));
      const auto ids = Encode(bpe, word);
      ASSERT_EQ(ids, ByDefinition(data, word)) << word;
      merged += word.size() - ids.size();
    }
  }
  EXPECT_GT(merged, 10000u);
}

TEST(Bpe, BytesWithoutATokenAreLeftOutBeforeMerging) {
  auto data = testing::ByteVocabulary({"! !"});
  data.tokens[0x04] = "unused token";
  const Bpe bpe = Bpe::Create(data.tokens, data.merges).value();
  EXPECT_FALSE(bpe.covers(0x04));
  EXPECT_TRUE(bpe.covers(0x05));
  EXPECT_THAT(Encode(bpe, "!\x04!"), ElementsAre(256));
  EXPECT_THAT(Encode(bpe, "\x04"), ElementsAre());
  const std::string many(1000, '\x04');
  EXPECT_THAT(Encode(bpe, many), ElementsAre());
  EXPECT_THAT(Encode(bpe, "!" + many + "!a"), ElementsAre(256, 'a'));
}

TEST(Bpe, RefusesDamagedVocabularies) {
  const auto good = testing::ByteVocabulary({"a b", "ab c"});
  const auto message = [](const TokenizerData& data) {
    const auto bpe = Bpe::Create(data.tokens, data.merges);
    return bpe ? std::string("accepted") : bpe.error().message;
  };
  EXPECT_EQ(message(good), "accepted");
  EXPECT_THAT(message({}), HasSubstr("no tokens"));

  auto bad = good;
  bad.tokens[257] = "ab";  // 257 repeats 256
  EXPECT_THAT(message(bad), HasSubstr("tokens 256 and 257 are both \"ab\""));
  bad = good;
  bad.tokens[' '] = "▁";
  EXPECT_THAT(message(bad), HasSubstr("no token \"Ġ\" for byte 0x20"));
  bad = good;
  bad.merges[1] = "ab zz";
  EXPECT_THAT(message(bad), HasSubstr("merge 1 names \"zz\""));
  bad.merges[1] = "zz ab";
  EXPECT_THAT(message(bad), HasSubstr("merge 1 names \"zz\""));
  bad.merges[1] = "a c";
  EXPECT_THAT(message(bad), HasSubstr("merge 1 names \"ac\""));
  bad.merges[1] = "a b";
  EXPECT_THAT(message(bad), HasSubstr("merge 1 repeats \"a b\" of merge 0"));
  for (const char* merge : {"", " ", "a", "ab", " b", "a ", "a b c", "a  b"}) {
    bad.merges[1] = merge;
    EXPECT_THAT(message(bad), HasSubstr("merge 1 is \"" + std::string(merge) + "\"")) << merge;
  }
}

}  // namespace
}  // namespace kvant
