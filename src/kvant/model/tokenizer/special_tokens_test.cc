#include "kvant/model/tokenizer/special_tokens.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

TEST(SpecialTokens, FindsTheLeftmostThenTheLongest) {
  SpecialTokens tokens;
  tokens.Add("<a>", 0);
  tokens.Add("<a><b>", 1);
  tokens.Add("b><cc", 2);
  auto match = tokens.Find("x<a><b><cc", 0);
  EXPECT_EQ(match.begin, 1u);
  EXPECT_EQ(match.size, 6u);
  EXPECT_EQ(match.id, 1);
  match = tokens.Find("x<a><b><cc", 2);
  EXPECT_EQ(match.begin, 5u);
  EXPECT_EQ(match.id, 2);
  match = tokens.Find("<a><", 0);  // the longer one is not complete
  EXPECT_EQ(match.size, 3u);
  EXPECT_EQ(match.id, 0);
  match = tokens.Find("x<a", 0);
  EXPECT_EQ(match.size, 0u);
  EXPECT_EQ(match.begin, 3u);
}

TEST(SpecialTokens, EmptyTextNeverMatches) {
  SpecialTokens tokens;
  tokens.Add("", 7);
  EXPECT_EQ(tokens.Find("abc", 0).size, 0u);
  tokens.Add("b", 3);
  EXPECT_EQ(tokens.Find("abc", 0).begin, 1u);
}

TEST(SpecialTokens, AgreesWithASearchForEachToken) {
  const CounterRng rng(11);
  uint64_t draw = 0;
  const auto word = [&](uint64_t max) {
    std::string text(1 + rng.Below(draw++, max), ' ');
    for (char& character : text) character = static_cast<char>('a' + rng.Below(draw++, 3));
    return text;
  };
  int found = 0;
  for (int round = 0; round < 300; ++round) {
    SpecialTokens tokens;
    std::vector<std::string> texts;
    while (texts.size() < 4) {
      const std::string text = word(6);
      if (std::find(texts.begin(), texts.end(), text) != texts.end()) continue;
      tokens.Add(text, static_cast<int32_t>(texts.size()));
      texts.push_back(text);
    }
    const std::string text = word(30);
    size_t begin = text.size();
    int32_t id = -1;
    for (size_t index = 0; index < texts.size(); ++index) {
      const size_t place = text.find(texts[index]);
      if (place < begin || (place == begin && id >= 0 && texts[index].size() > texts[id].size())) {
        begin = place;
        id = static_cast<int32_t>(index);
      }
    }
    const auto match = tokens.Find(text, 0);
    EXPECT_EQ(match.begin, begin) << text;
    EXPECT_EQ(match.id, id) << text;
    found += id >= 0;
  }
  EXPECT_GT(found, 150);
}

}  // namespace
}  // namespace kvant
