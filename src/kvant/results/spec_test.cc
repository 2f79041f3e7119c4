#include "kvant/results/spec.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;

constexpr char kGood[] = R"(# which hurts more
name = "keys-vs-values"
question = "Which hurts more when quantized, keys or values?"
model = "smollm2-135m"
text = "jargon"
contexts = [256, 1024]
spans = [{end = 2304, length = 256}, {end = 4608, length = 256}]

[[arm]]
name = "k4"
policy = "k=q4_0 v=f32"

[[arm]]
name = "v4"
policy = "k=f32 v=q4_0"

[[bar]]
name = "keys hurt more"
claim = "kl(k4) > kl(v4) in >= 2 of 2 spans at 1024"

[floor]
second_chunk = 64

[smoke]
end = 320
length = 64
context = 256
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string ErrorOf(const std::string& text) {
  const Result<ExperimentSpec> spec = ParseExperiment(text, "e.toml");
  return spec ? "" : spec.error().message;
}

std::string ErrorWith(const std::string& from, const std::string& to) { return ErrorOf(Replaced(kGood, from, to)); }

TEST(Spec, ReadsEveryKey) {
  const Result<ExperimentSpec> parsed = ParseExperiment(kGood, "e.toml");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
  const ExperimentSpec& spec = *parsed;
  EXPECT_EQ(spec.name, "keys-vs-values");
  EXPECT_EQ(spec.question, "Which hurts more when quantized, keys or values?");
  EXPECT_EQ(spec.model, "smollm2-135m");
  EXPECT_EQ(spec.text, "jargon");
  EXPECT_EQ(spec.chunk, 512u);
  EXPECT_EQ(spec.seed, 1u);
  EXPECT_EQ(spec.reference, "k=f32 v=f32");
  EXPECT_EQ(spec.reference_place.line, 0u);
  EXPECT_EQ(spec.contexts, (std::vector<uint64_t>{256, 1024}));
  EXPECT_EQ(spec.spans, (std::vector<SpanSpec>{{2304, 256}, {4608, 256}}));
  ASSERT_EQ(spec.arms.size(), 2u);
  EXPECT_EQ(spec.arms[1].name, "v4");
  EXPECT_EQ(spec.arms[1].policy, "k=f32 v=q4_0");
  ASSERT_EQ(spec.bars.size(), 1u);
  EXPECT_EQ(spec.bars[0].claim.clauses.size(), 1u);
  EXPECT_EQ(spec.floor_second_chunk, 64u);
  ASSERT_TRUE(spec.smoke.has_value());
  EXPECT_EQ(spec.smoke->span, (SpanSpec{320, 64}));
  EXPECT_EQ(spec.smoke->context, 256u);

  const Result<ExperimentSpec> more = ParseExperiment(
      Replaced(kGood, "text = ", "chunk = 128\nseed = 0\nreference = 'k=f16 v=f16'\ntext = "), "e.toml");
  ASSERT_TRUE(more.has_value()) << more.error().message;
  EXPECT_EQ(more->chunk, 128u);
  EXPECT_EQ(more->seed, 0u);
  EXPECT_EQ(more->reference, "k=f16 v=f16");
}

TEST(Spec, ShortFormOfSpansMeansTheSame) {
  const Result<ExperimentSpec> spec =
      ParseExperiment(Replaced(kGood, "[{end = 2304, length = 256}, {end = 4608, length = 256}]",
                               "{ends = [2304, 4608], length = 256}"),
                      "e.toml");
  ASSERT_TRUE(spec.has_value()) << spec.error().message;
  EXPECT_EQ(spec->spans, (std::vector<SpanSpec>{{2304, 256}, {4608, 256}}));
}

// The policy parser of a higher layer reports "at character N"; the place turns that into a place in the file.
TEST(Spec, KeepsThePlaceOfPolicies) {
  const ExperimentSpec spec = ParseExperiment(kGood, "e.toml").value();
  // Line 15 is `policy = "k=f32 v=q4_0"`; its text begins at column 11.
  EXPECT_EQ(PlaceText(spec, spec.arms[1].policy_place), "e.toml:15:11");
  EXPECT_EQ(PlaceText(spec, spec.arms[1].policy_place, 6), "e.toml:15:17");
  EXPECT_EQ(PlaceText(spec, spec.reference_place), "e.toml");
}

TEST(Spec, ErrorsNameFileLineAndKey) {
  EXPECT_EQ(ErrorWith("policy = \"k=q4_0", "polcy = \"k=q4_0"),
            "e.toml:9: arm 'k4': missing key 'policy'\ne.toml:11: arm 'k4': unknown key 'polcy' (known: name, policy)");
  EXPECT_EQ(ErrorWith("name = \"keys-vs-values\"\n", ""), "e.toml:1: missing key 'name'");
  EXPECT_EQ(ErrorWith("\"keys-vs-values\"", "3"), "e.toml:2: 'name' is a whole number; write a text in quotes");
  EXPECT_THAT(ErrorWith("\"keys-vs-values\"", "\"../x\""), HasSubstr("e.toml:2: 'name' names the output files"));
  EXPECT_EQ(ErrorWith("\"smollm2-135m\"", "\"  \""), "e.toml:4: 'model' is empty");
  EXPECT_THAT(ErrorWith("\"smollm2-135m\"", "\"a\\nb\""), HasSubstr("e.toml:4: 'model' holds a line break"));
  EXPECT_EQ(ErrorWith("[256, 1024]", "[]"),
            "e.toml:6: 'contexts' is empty; write at least one number\n"
            "e.toml:19: bar 'keys hurt more': claim: context 1024 is not measured "
            "(contexts: )");
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, -5]"),
              HasSubstr("e.toml:6: an element of 'contexts' is -5; it must be from 1 to 2147483647"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, 0]"), HasSubstr("an element of 'contexts' is 0"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, 2.5]"), HasSubstr("is a number with a fraction; write a whole number"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, nan]"), HasSubstr("is a number with a fraction; write a whole number"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, 2147483648]"), HasSubstr("is 2147483648; it must be"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, 99999999999999999999]"), HasSubstr("e.toml:6: no valid TOML"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "[1024, 1024]"), HasSubstr("'contexts' holds 1024 twice"));
  EXPECT_THAT(ErrorWith("[256, 1024]", "1024"), HasSubstr("'contexts' is a whole number; write a list"));
  EXPECT_EQ(ErrorWith("{end = 2304", "{end = 1279"),
            "e.toml:7: span 1: 256 tokens after a context of 1024 do not fit before token 1279; end at 1280 or later");
  // Of several contexts that do not fit, the longest says where the span has to end.
  EXPECT_THAT(ErrorWith("{end = 2304", "{end = 300"), HasSubstr("after a context of 1024 do not fit before token 300"));
  EXPECT_EQ(ErrorWith("{end = 2304", "{end = 1280"), "");  // fits exactly
  EXPECT_EQ(ErrorWith("{end = 4608", "{end = 2304"),
            "e.toml:7: span 2: the span of 256 tokens that ends at 2304 is there twice; drop one\n"
            "e.toml:19: bar 'keys hurt more': claim: counts of 2 spans but the experiment has 1; write 'of 1'");
  EXPECT_THAT(ErrorWith("length = 256}, ", "length = 0}, "), HasSubstr("span 1: 'length' is 0"));
  EXPECT_THAT(ErrorWith("{end = 2304, length = 256}", "7"), HasSubstr("an element of 'spans' is a whole number"));
  EXPECT_THAT(ErrorWith("second_chunk = 64", "second_chunk = 512"),
              HasSubstr("floor: 'second_chunk' is 512, the chunk itself"));
  EXPECT_THAT(ErrorWith("end = 320", "end = 319"), HasSubstr("smoke: 64 tokens after a context of 256 do not fit"));
  EXPECT_THAT(ErrorWith("\"v4\"", "\"k4\""), HasSubstr("e.toml:14: arm 'k4': the name is there twice"));
  EXPECT_THAT(ErrorWith("\"v4\"", "\"ref\""), HasSubstr("e.toml:14: arm 2: 'name' must be a letter"));
  EXPECT_THAT(ErrorWith("k=f32 v=q4_0", "k=q4_0 v=f32"), HasSubstr("e.toml:15: arm 'v4': same policy as arm 'k4'"));
  EXPECT_THAT(ErrorWith("kl(k4) > kl(v4) in", "kl(k4) > kl(v5) in"),
              HasSubstr("e.toml:19: bar 'keys hurt more': claim: unknown arm 'v5' (known: k4, v4)"));
  EXPECT_THAT(ErrorWith("kl(k4) > kl(v4) in", "kl(k4) >> kl(v4) in"),
              HasSubstr("e.toml:19: bar 'keys hurt more': claim, character 9: expected kl"));
  EXPECT_THAT(ErrorWith("2 of 2", "5 of 6"), HasSubstr("counts of 6 spans but the experiment has 2"));
  EXPECT_THAT(ErrorWith("at 1024", "at 4096"), HasSubstr("context 4096 is not measured (contexts: 256, 1024)"));
  EXPECT_THAT(ErrorOf("name = \n"), HasSubstr("e.toml:1: no valid TOML"));
  EXPECT_THAT(ErrorOf("arm = []\n"), HasSubstr("'arm' is an empty list; write [[arm]]"));
  EXPECT_THAT(ErrorOf("arm = 3\n"), HasSubstr("'arm' is a whole number; write [[arm]]"));
  EXPECT_THAT(ErrorOf("floor = 3\n"), HasSubstr("'floor' is a whole number; write a table [floor]"));
}

TEST(Spec, AllErrorsComeTogetherInTheOrderOfTheFile) {
  std::string text = Replaced(kGood, "contexts = [256, 1024]", "contexts = [0, true]");
  text = Replaced(text, "\"jargon\"", "1979-05-27");
  text = Replaced(text, "second_chunk", "first_chunk");
  const std::string error = ErrorOf(text);
  EXPECT_THAT(error, HasSubstr("e.toml:5: 'text' is a date or time; write a text in quotes\n"
                               "e.toml:6: an element of 'contexts' is 0"));
  EXPECT_THAT(error, HasSubstr("e.toml:6: an element of 'contexts' is true or false"));
  EXPECT_THAT(error, HasSubstr("floor: unknown key 'first_chunk' (known: second_chunk)"));
  EXPECT_THAT(error, HasSubstr("floor: missing key 'second_chunk'"));

  std::string many = kGood;
  for (int key = 0; key < 100; ++key) many = "key" + std::to_string(key) + " = 1\n" + many;
  EXPECT_THAT(ErrorOf(many), HasSubstr("\ne.toml: and 70 more"));
}

TEST(Spec, HostileTextsGiveErrors) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("missing key 'name'"));
  EXPECT_THAT(ErrorOf("x = " + std::string(100000, '[')), HasSubstr("no valid TOML"));
  std::string tables;
  for (int depth = 0; depth < 5000; ++depth) tables += "a.";
  EXPECT_NE(ErrorOf(tables + "b = 1"), "");
  std::string inline_tables;
  for (int depth = 0; depth < 5000; ++depth) inline_tables += "{a=";
  EXPECT_NE(ErrorOf("x = " + inline_tables), "");
  EXPECT_THAT(ErrorOf(std::string("name = \"\xff\xfe\"")), HasSubstr("no valid TOML"));
  EXPECT_THAT(ErrorOf(std::string("name = \"a\0b\"", 12)), HasSubstr("no valid TOML"));
  EXPECT_THAT(ErrorOf(std::string((size_t{1} << 20) + 1, ' ')), HasSubstr("1048577 bytes"));
  EXPECT_EQ(ErrorWith("Which hurts", "\xe2\x80\x9cWhich\xe2\x80\x9d \xf0\x9f\x94\x91 hurts"), "");  // UTF-8 is welcome
  EXPECT_EQ(ErrorOf("\xef\xbb\xbf" + std::string(kGood)), "");                                      // so is a BOM
  EXPECT_EQ(ErrorOf(Replaced(kGood, "# which hurts more\n", "# which hurts more\r\n")), "");
}

TEST(Spec, SurvivesMutations) {
  const std::string seed = kGood;
  for (size_t length = 0; length < seed.size(); ++length) ErrorOf(seed.substr(0, length));
  const CounterRng rng(17);
  size_t refused = 0;
  for (uint64_t round = 0; round < 3000; ++round) {
    std::string text = seed;
    for (uint64_t change = 0; change < 1 + round % 4; ++change) {
      const uint64_t at = rng.Below(8 * round + change, text.size());
      const uint64_t kind = rng.Below(8 * round + 4 + change, 260);
      if (kind < 256) {
        text[at] = static_cast<char>(kind);
      } else {
        text.erase(at, kind - 255);
      }
    }
    const std::string error = ErrorOf(text);
    refused += error.empty() ? 0 : 1;
    if (!error.empty()) {
      EXPECT_THAT(error, HasSubstr("e.toml:")) << text;
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_LT(refused, 3000u);  // changes in the question or a comment are harmless
}

std::string HashWith(const std::string& from, const std::string& to) {
  return SpecHash(ParseExperiment(Replaced(kGood, from, to), "e.toml").value(), {"model", "text"});
}

TEST(SpecHash, FollowsNumbersAndNothingElse) {
  const ExperimentSpec spec = ParseExperiment(kGood, "e.toml").value();
  const std::string hash = SpecHash(spec, {"model", "text"});
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash, SpecHash(ParseExperiment(kGood, "elsewhere.toml").value(), {"model", "text"}));
  EXPECT_EQ(hash, HashWith("# which hurts more", "# another comment"));
  EXPECT_EQ(hash, HashWith("keys-vs-values", "renamed"));
  EXPECT_EQ(hash, HashWith("Which hurts more when", "What"));
  EXPECT_EQ(hash, HashWith("[256, 1024]", "[1024, 256]"));
  EXPECT_EQ(hash, HashWith(">= 2 of 2", ">= 1 of 2"));
  EXPECT_EQ(hash, HashWith("text = ", "reference = \"k=f32 v=f32\"\nseed = 9\nchunk = 512\ntext = "));
  EXPECT_EQ(hash,
            HashWith("[{end = 2304, length = 256}, {end = 4608, length = 256}]", "{ends=[4608, 2304], length=256}"));

  EXPECT_NE(hash, SpecHash(spec, {"other", "text"}));
  EXPECT_NE(hash, SpecHash(spec, {"model", "other"}));
  EXPECT_NE(hash, SpecHash(spec, {"modelt", "ext"}));
  EXPECT_NE(hash, HashWith("k=q4_0 v=f32", "k=q4_1 v=f32"));
  EXPECT_NE(hash, HashWith("text = ", "reference = \"k=f16 v=f16\"\ntext = "));
  EXPECT_NE(hash, HashWith("text = ", "chunk = 256\ntext = "));
  EXPECT_NE(hash, HashWith("[256, 1024]", "[512, 1024]"));
  EXPECT_NE(hash, HashWith("end = 4608", "end = 4609"));
  EXPECT_NE(hash, HashWith("length = 256}, ", "length = 255}, "));
}

TEST(Spec, SpansMustFitTheText) {
  const ExperimentSpec spec = ParseExperiment(kGood, "e.toml").value();
  EXPECT_TRUE(CheckSpansFit(spec, 4608).has_value());
  EXPECT_EQ(CheckSpansFit(spec, 4607).error().message,
            "e.toml: the span that ends at token 4608 is beyond text 'jargon', which has 4607 tokens; end it earlier");
}

TEST(Spec, SmokeIsOneTinyCellPerArmWithAnotherHash) {
  const ExperimentSpec spec = ParseExperiment(kGood, "e.toml").value();
  const ExperimentSpec smoke = SmokeVariant(spec);
  EXPECT_EQ(smoke.spans, (std::vector<SpanSpec>{{320, 64}}));
  EXPECT_EQ(smoke.contexts, (std::vector<uint64_t>{256}));
  EXPECT_TRUE(smoke.bars.empty());
  EXPECT_FALSE(smoke.floor_second_chunk.has_value());
  EXPECT_EQ(smoke.arms.size(), 2u);
  EXPECT_NE(SpecHash(smoke, {}), SpecHash(spec, {}));
  ExperimentSpec plain = spec;
  plain.smoke.reset();
  EXPECT_EQ(SmokeVariant(plain).spans, (std::vector<SpanSpec>{{128, 64}}));
}

TEST(ParseExperiment, DeepDottedKeysAreAnErrorAndNoCrash) {
  std::string text = "a";
  for (int level = 0; level < 100000; ++level) text += ".a";
  for (const std::string& toml : {text + " = 1\n", "[" + text + "]\n"}) {
    const auto spec = ParseExperiment(toml, "deep.toml");
    ASSERT_FALSE(spec.has_value());
    EXPECT_NE(spec.error().message.find("nested too deep"), std::string::npos) << spec.error().message;
  }
}

}  // namespace
}  // namespace kvant
