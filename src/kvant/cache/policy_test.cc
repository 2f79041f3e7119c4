#include "kvant/cache/policy.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

TEST(Policy, RoundTripsItsText) {
  for (const char* text : {"k=f32 v=f32", "k=had+q4_0 v=affine3/g64 window=128 sinks=4 at=post_rope",
                           "k=q8_0 v=q4_0 k[0,1,-1]=f16 v[-1]=q8_0", "v=dict3 k=had+dict3 order=interleaved",
                           "  k=q4_0   v=f16 exact=bf16 window=7 "}) {
    const auto policy = ParsePolicy(text);
    ASSERT_TRUE(policy.has_value()) << policy.error().message;
    EXPECT_EQ(ToText(*policy), text);
    // The canonical text is a policy too, and its own canonical form.
    const auto again = ParsePolicy(CanonicalText(*policy));
    ASSERT_TRUE(again.has_value()) << again.error().message;
    EXPECT_EQ(CanonicalText(*again), CanonicalText(*policy));
  }
}

TEST(Policy, CanonicalTextTellsStoredBytesApart) {
  const auto canonical = [](const char* text) { return CanonicalText(*ParsePolicy(text)); };
  EXPECT_EQ(canonical("v=f32 k=q4_0 at=post_rope order=half sinks=0"), canonical("k=q4_0 v=f32"));
  EXPECT_NE(canonical("k=q4_0 v=f32 window=1"), canonical("k=q4_0 v=f32"));
  EXPECT_NE(canonical("k=q4_0 v=f32 order=interleaved"), canonical("k=q4_0 v=f32"));
  EXPECT_EQ(canonical("k=q4_0 v=f32 exact=f16"), canonical("k=q4_0 v=f32"));
  EXPECT_NE(canonical("k=q4_0 v=f32 exact=f16 window=1"), canonical("k=q4_0 v=f32 window=1"));
}

TEST(Policy, ErrorsPointAtTheCharacter) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "at character 0: k is missing"},
      {"k=f32", "at character 5: v is missing"},
      {"k=f32 v=", "at character 8: v has no value"},
      {"k=f32 v=f32 k=f16", "at character 12: k is given twice"},
      {"k=f32 v=f32 colour=red", "at character 12: unknown key \"colour\""},
      {"k=f32 v=f32 window=-1", "at character 19: window wants"},
      {"k=f32 v=f32 window=99999999999999999999", "at character 19: window wants"},
      {"k=f32 v=f32 at=pre_rope", "at character 15: at=pre_rope is not available"},
      {"k=f32 v=f32 order=random", "at character 18: order is"},
      {"k=f32 v=f32 exact=q4_0", "at character 18: exact is"},
      {"k=q4_7 v=f32", "at character 2"},
      {"k=f32 v=had+q4_7", "at character 12"},
      {"k=f32 v=f32 k[]=f16", "at character 14"},
      {"k=f32 v=f32 k[1,]=f16", "at character 16"},
      {"k=f32 v=f32 k[1=f16", "at character 12"},
      {"k=f32 v=f32 k[1;2]=f16", "at character 14"},
      {"k=f32 v=f32 nonsense", "at character 12: \"nonsense\" is not"},
      {"k=f32 v=f32 q[0]=f16", "at character 12: unknown key"},
  };
  for (const auto& [text, message] : cases) {
    const auto policy = ParsePolicy(text);
    ASSERT_FALSE(policy.has_value()) << text;
    EXPECT_NE(policy.error().message.find(message), std::string::npos) << text << " -> " << policy.error().message;
  }
}

TEST(Policy, OverridesCountFromBothEndsAndTheLastWins) {
  const auto policy = ParsePolicy("k=q8_0 v=q4_0 k[0,1,-1]=f16 k[1]=f32 v[-2]=q8_0");
  ASSERT_TRUE(policy.has_value());
  const auto k = [&](size_t layer) { return ToText(policy->KeysOf(layer, 5).format); };
  EXPECT_EQ(k(0), "f16");
  EXPECT_EQ(k(1), "f32");
  EXPECT_EQ(k(2), "q8_0");
  EXPECT_EQ(k(4), "f16");
  EXPECT_EQ(ToText(policy->ValuesOf(3, 5).format), "q8_0");
  EXPECT_EQ(ToText(policy->ValuesOf(4, 5).format), "q4_0");
}

TEST(Policy, InterleavedOrderComesBeforeOtherTransformsAndOnlyForKeys) {
  const auto policy = ParsePolicy("k=had+q4_0 v=had+q4_0 order=interleaved");
  ASSERT_TRUE(policy.has_value());
  EXPECT_EQ(policy->KeysOf(0, 1).format.transforms,
            (std::vector<TransformKind>{TransformKind::kInterleave, TransformKind::kHadamard}));
  EXPECT_EQ(policy->ValuesOf(0, 1).format.transforms, std::vector<TransformKind>{TransformKind::kHadamard});
}

TEST(Policy, OrderMovesNothingWhereValuesAreStoredAlone) {
  for (const char* format : {"f32", "f16", "bf16"}) {
    const auto policy = ParsePolicy(fmt::format("k={} v=f32 k[1]=q4_0 k[2]=had+{} order=interleaved", format, format));
    ASSERT_TRUE(policy.has_value());
    EXPECT_TRUE(policy->KeysOf(0, 3).format.transforms.empty()) << format;
    EXPECT_EQ(policy->KeysOf(1, 3).format.transforms, std::vector<TransformKind>{TransformKind::kInterleave});
    // A rotation mixes channels, so their order matters again.
    EXPECT_EQ(policy->KeysOf(2, 3).format.transforms.size(), 2u);
  }
}

// Any bytes either parse, and then round trip, or give an error: never a crash.
TEST(Policy, HostileTextIsRefusedOrRoundTrips) {
  const std::string alphabet = "kv=[],- 0123456789qfbdhas+/_gm\xff";
  const std::string seed_text = "k=had+q4_0 v=affine3/g64 k[0,-1]=f16 window=12";
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    const CounterRng rng(99, trial);
    std::string text = trial % 2 == 0 ? seed_text : std::string();
    for (uint64_t edit = 0; edit < 1 + rng.Below(0, 12); ++edit) {
      const size_t at = rng.Below(10 + 3 * edit, text.size() + 1);
      const char letter = alphabet[rng.Below(11 + 3 * edit, alphabet.size())];
      if (rng.Below(12 + 3 * edit, 3) == 0 && at < text.size()) {
        text.erase(at, 1);
      } else {
        text.insert(at, 1, letter);
      }
    }
    const auto policy = ParsePolicy(text);
    EXPECT_EQ(policy ? ToText(*policy) : text, text);
    EXPECT_TRUE(policy || !policy.error().message.empty());
  }
}

}  // namespace
}  // namespace kvant
