#include "kvant/eval/span.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ids that are ten times their place.
std::vector<int32_t> Text(size_t tokens) {
  std::vector<int32_t> text(tokens);
  for (size_t index = 0; index < tokens; ++index) text[index] = static_cast<int32_t>(10 * index);
  return text;
}

std::string ErrorOf(size_t tokens, const Span& span) {
  const auto cut = CutSpan(Text(tokens), span, std::nullopt);
  return cut ? "" : cut.error().message;
}

TEST(CutSpan, ContextThenScoredTokensUpToTheEnd) {
  const SpanTokens cut = *CutSpan(Text(10), {.end = 8, .scored = 2, .context = 3}, std::nullopt);
  EXPECT_THAT(cut.tokens, ElementsAre(30, 40, 50, 60, 70));
  EXPECT_EQ(cut.scored, 2u);
}

TEST(CutSpan, BosComesFirstAndIsNotCountedInTheContext) {
  const SpanTokens cut = *CutSpan(Text(10), {.end = 8, .scored = 2, .context = 3}, 7);
  EXPECT_THAT(cut.tokens, ElementsAre(7, 30, 40, 50, 60, 70));
  EXPECT_EQ(cut.scored, 2u);
}

TEST(CutSpan, TheLeastAndTheMost) {
  EXPECT_THAT(CutSpan(Text(1), {1, 1, 0}, std::nullopt)->tokens, ElementsAre(0));
  EXPECT_THAT(CutSpan(Text(4), {4, 1, 3}, std::nullopt)->tokens, ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(CutSpan(Text(4), {4, 4, 0}, std::nullopt)->tokens, ElementsAre(0, 10, 20, 30));
  EXPECT_THAT(CutSpan(Text(4), {4, 1, 0}, std::nullopt)->tokens, ElementsAre(30));
}

TEST(CutSpan, Errors) {
  EXPECT_THAT(ErrorOf(10, {8, 0, 3}), HasSubstr("at least 1 token"));
  EXPECT_THAT(ErrorOf(10, {11, 2, 3}), HasSubstr("ends at token 11 but the text has only 10 tokens"));
  EXPECT_THAT(ErrorOf(0, {1, 1, 0}), HasSubstr("only 0 tokens"));
  EXPECT_THAT(ErrorOf(10, {8, 6, 3}), HasSubstr("6 scored tokens after 3 tokens of context do not fit before token 8: "
                                                "the span must end at token 9 or later"));
  EXPECT_THAT(ErrorOf(10, {8, 9, 0}), HasSubstr("at token 9 or later"));
  EXPECT_THAT(ErrorOf(10, {0, 1, 0}), HasSubstr("at token 1 or later"));
}

TEST(CutSpan, HugeNumbersDoNotWrapAround) {
  const std::string most = std::to_string(SIZE_MAX);
  EXPECT_THAT(ErrorOf(10, {SIZE_MAX, 1, 0}), HasSubstr("ends at token " + most));
  EXPECT_THAT(ErrorOf(10, {8, SIZE_MAX, 0}), HasSubstr("at token " + most + " or later"));
  EXPECT_THAT(ErrorOf(10, {8, 2, SIZE_MAX}), HasSubstr("at token " + most + " or later"));
  EXPECT_THAT(ErrorOf(10, {8, SIZE_MAX, SIZE_MAX}), HasSubstr("at token " + most + " or later"));
  // Sums that wrap to something small.
  EXPECT_THAT(ErrorOf(10, {8, 4, SIZE_MAX - 3}), HasSubstr("at token " + most + " or later"));
  EXPECT_THAT(ErrorOf(10, {8, SIZE_MAX - 1, 3}), HasSubstr("at token " + most + " or later"));
}

}  // namespace
}  // namespace kvant
