// Names, limits and sizes.
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/codec/codec.h"
#include "kvant/codec/transform.h"

namespace kvant {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string ErrorOf(std::string_view text) {
  const Result<CodecSpec> spec = ParseCodec(text);
  return spec ? "accepted as " + ToText(*spec) : spec.error().message;
}
std::string FormatErrorOf(std::string_view text) {
  const Result<Format> format = ParseFormat(text);
  return format ? "accepted as " + ToText(*format) : format.error().message;
}
CodecSpec Spec(std::string_view text) { return ParseCodec(text).value(); }

TEST(CodecText, EveryCodecSurvivesTheRoundTrip) {
  std::set<std::string> texts;
  for (const CodecSpec& spec : AllCodecs()) {
    const std::string text = ToText(spec);
    EXPECT_TRUE(texts.insert(text).second) << text;
    const Result<CodecSpec> parsed = ParseCodec(text);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, spec) << text;
    EXPECT_FALSE(Describe(spec.family).empty());
  }
  // 9 without options; affine 8 widths x 5 groups; absmax the same and 7 x 5 symmetric.
  EXPECT_EQ(texts.size(), 9u + 40u + 75u);
  for (const char* text : {"f32", "f16", "bf16", "affine4/g64", "affine8/head", "affine2/vector", "absmax4/g32",
                           "absmax4/g32/sym", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "dict3"}) {
    EXPECT_TRUE(texts.count(text)) << text;
  }
}

TEST(CodecText, ErrorsPointAtTheCharacter) {
  EXPECT_THAT(ErrorOf(""), AllOf(StartsWith("at character 0: "), HasSubstr("q4_0")));
  EXPECT_THAT(ErrorOf("q4_2"), AllOf(StartsWith("at character 0: codec \"q4_2\""), HasSubstr("affineB/GROUP")));
  EXPECT_THAT(ErrorOf("Q4_0"), StartsWith("at character 0: "));
  EXPECT_THAT(ErrorOf("q4_0/g32"), StartsWith("at character 4: q4_0 has no options"));
  EXPECT_THAT(ErrorOf("q4_0/"), StartsWith("at character 4: "));
  EXPECT_THAT(ErrorOf("affine"), StartsWith("at character 6: affine needs its bits"));
  EXPECT_THAT(ErrorOf("affine9/g32"), StartsWith("at character 6: "));
  EXPECT_THAT(ErrorOf("affine0/g32"), StartsWith("at character 6: "));
  EXPECT_THAT(ErrorOf("affine04/g32"), StartsWith("at character 6: "));
  EXPECT_THAT(ErrorOf("affine4"), StartsWith("at character 7: affine4 needs a group"));
  EXPECT_THAT(ErrorOf("affine4/"), StartsWith("at character 8: group \"\""));
  EXPECT_THAT(ErrorOf("affine4/g48"), StartsWith("at character 8: group \"g48\""));
  EXPECT_THAT(ErrorOf("affine4/g32/sym"), StartsWith("at character 12: "));
  EXPECT_THAT(ErrorOf("absmax4/g32/asym"), StartsWith("at character 12: "));
  EXPECT_THAT(ErrorOf("absmax4/g32/sym/sym"), StartsWith("at character 12: \"sym/sym\""));
  EXPECT_THAT(ErrorOf("absmax1/g32/sym"), StartsWith("at character 12: sym needs 2 bits"));
  EXPECT_THAT(ErrorOf(std::string("q4_0\0", 5)), StartsWith("at character 0: "));
  EXPECT_THAT(ErrorOf("q4_0 "), StartsWith("at character 0: "));
}

TEST(FormatText, TransformsAndCodecSurviveTheRoundTrip) {
  for (const CodecSpec& spec : AllCodecs()) {
    for (const char* prefix : {"", "had+", "had64+", "had+had64+"}) {
      const std::string text = prefix + ToText(spec);
      const Result<Format> parsed = ParseFormat(text);
      ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
      EXPECT_EQ(parsed->codec, spec);
      EXPECT_EQ(ToText(*parsed), text);
    }
  }
  const Format had = ParseFormat("had+q4_0").value();
  EXPECT_THAT(had.transforms, testing::ElementsAre(TransformKind::kHadamard));
}

TEST(FormatText, ErrorsPointAtTheCharacter) {
  EXPECT_THAT(FormatErrorOf("had+q4_2"), StartsWith("at character 4: codec \"q4_2\""));
  EXPECT_THAT(FormatErrorOf("had64+affine4/g48"), StartsWith("at character 14: group \"g48\""));
  EXPECT_THAT(FormatErrorOf("had32+q4_0"), StartsWith("at character 0: transform \"had32\""));
  EXPECT_THAT(FormatErrorOf("had+hda+q4_0"), StartsWith("at character 4: transform \"hda\""));
  EXPECT_THAT(FormatErrorOf("q4_0+had"), StartsWith("at character 0: transform \"q4_0\""));
  EXPECT_THAT(FormatErrorOf("had"), StartsWith("at character 0: codec \"had\""));
  EXPECT_THAT(FormatErrorOf("had+"), StartsWith("at character 4: codec \"\""));
  EXPECT_THAT(FormatErrorOf("+q4_0"), StartsWith("at character 0: transform \"\""));
  EXPECT_THAT(FormatErrorOf("had+had+q4_0"), StartsWith("at character 4: had twice"));
  EXPECT_THAT(FormatErrorOf("interleave+q4_0"), StartsWith("at character 0: transform \"interleave\""));
}

std::string Refusal(std::string_view format, size_t kv_heads, size_t head_dim) {
  const Status status = Supports(ParseFormat(format).value(), kv_heads, head_dim);
  return status ? "supported" : status.error().message;
}

TEST(CodecSupports, RefusesByNameAndNumber) {
  EXPECT_EQ(Refusal("q4_0", 8, 128), "supported");
  for (const char* ggml : {"q4_0", "q4_1", "q5_0", "q5_1", "q8_0"}) {
    EXPECT_THAT(Refusal(ggml, 8, 80), AllOf(HasSubstr(ggml), HasSubstr("head size 80"), HasSubstr("32")));
    EXPECT_EQ(Refusal(ggml, 8, 96), "supported");
  }
  EXPECT_EQ(Refusal("affine4/g32", 8, 80), "supported");  // groups of 32, 32, 16
  EXPECT_THAT(Refusal("affine4/g128", 8, 64), AllOf(HasSubstr("128"), HasSubstr("head size 64"), HasSubstr("affine4")));
  EXPECT_THAT(Refusal("absmax4/g64/sym", 8, 32), AllOf(HasSubstr("64"), HasSubstr("head size 32")));
  EXPECT_EQ(Refusal("affine4/vector", 8, 32), "supported");
  EXPECT_EQ(Refusal("dict3", 1, 72), "supported");
  for (const size_t head_dim : {0, 8, 24, 36, 33, 520, 1024}) {
    EXPECT_THAT(Refusal("f16", 1, head_dim), HasSubstr("head size " + std::to_string(head_dim))) << head_dim;
  }
  EXPECT_THAT(Refusal("f16", 0, 64), HasSubstr("0 KV heads"));
  EXPECT_THAT(Refusal("f16", size_t{1} << 40, 64), HasSubstr("KV heads"));
  EXPECT_THAT(Refusal("had+f16", 1, 80), AllOf(HasSubstr("had"), HasSubstr("80")));
  EXPECT_THAT(Refusal("had64+f16", 1, 96), AllOf(HasSubstr("had64"), HasSubstr("96")));
  EXPECT_EQ(Refusal("had64+f16", 1, 192), "supported");
  EXPECT_EQ(Refusal("had+q8_0", 1, 512), "supported");
}

TEST(CodecSupports, RefusesSpecsThatNoTextGives) {
  const CodecSpec bad[] = {
      {CodecFamily::kAffine},           {CodecFamily::kAffine, 9, 32},       {CodecFamily::kAffine, 4, 48},
      {CodecFamily::kAffine, 4, 0},     {CodecFamily::kAffine, 4, 32, true}, {CodecFamily::kAbsmax, 1, 32, true},
      {CodecFamily::kQ4_0, 4},          {CodecFamily::kF16, 0, 32},          {CodecFamily::kDict3, 0, 0, true},
      {static_cast<CodecFamily>(200u)},
  };
  for (const CodecSpec& spec : bad) EXPECT_FALSE(Supports(spec, 1, 64).has_value());
}

// Bits per value as published (ggml's block sizes; bits + 32 / group and bits + 16 / group by definition).
TEST(CodecSizes, AreThePublishedBits) {
  const struct {
    const char* text;
    size_t kv_heads;
    size_t head_dim;
    double bits;
  } rows[] = {
      {"f32", 1, 128, 32},
      {"f16", 1, 128, 16},
      {"bf16", 1, 128, 16},
      {"q4_0", 1, 128, 4.5},
      {"q4_1", 1, 128, 5.0},
      {"q5_0", 1, 128, 5.5},
      {"q5_1", 1, 128, 6.0},
      {"q8_0", 1, 128, 8.5},
      {"dict3", 1, 256, 3.1875},
      {"affine4/g32", 1, 128, 5.0},
      {"affine2/g64", 1, 128, 2.5},
      {"affine3/g128", 1, 128, 3.25},
      {"affine4/head", 1, 64, 4.5},
      {"affine4/vector", 8, 128, 4.0 + 32.0 / 1024},
      {"absmax4/g32", 1, 128, 4.5},
      {"absmax3/g64/sym", 1, 128, 3.25},
      {"absmax1/g128", 1, 128, 1.125},
      {"affine4/g32", 1, 80, 4.0 + 3 * 32.0 / 80},           // the third group holds 16 values
      {"affine3/g32", 1, 40, (2 * 32 + 3 * 40 + 8) / 40.0},  // 23 bytes, padded to 24
      {"dict3", 1, 40, (2 * 8 + 3 * 40) / 40.0},             // two indices in two bytes
  };
  for (const auto& row : rows) {
    const CodecSpec spec = Spec(row.text);
    const size_t elems = UnitElems(spec, row.kv_heads, row.head_dim);
    EXPECT_DOUBLE_EQ(8.0 * static_cast<double>(UnitBytes(spec, elems)) / static_cast<double>(elems), row.bits)
        << row.text;
  }
  EXPECT_EQ(UnitElems(Spec("affine4/vector"), 8, 128), 1024u);
  EXPECT_EQ(UnitElems(Spec("affine4/head"), 8, 128), 128u);
}

}  // namespace
}  // namespace kvant
