// Damaged GGUF files: each gives one sentence, none crashes, allocates by a claimed count or takes long. Run under the
// address and undefined-behaviour sanitizers by the asan-ubsan preset; buffers have the exact size of the file.
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/io/damage_for_test.h"
#include "kvant/io/dequantize.h"
#include "kvant/io/gguf.h"
#include "kvant/io/gguf_parse.h"
#include "kvant/io/gguf_test_builder.h"

namespace kvant {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using T = GgufValueType;

constexpr uint64_t kHuge = uint64_t{1} << 62;

// "" when it parses. The bytes are copied to a buffer of exactly their size.
std::string ParseError(const std::vector<std::byte>& bytes) {
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  const Result<GgufContents> contents = ParseGguf("file.gguf", exact);
  if (!contents) {
    const std::string& message = contents.error().message;
    EXPECT_TRUE(message.starts_with("file.gguf: ")) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_GT(message.size(), 20u) << message;
    EXPECT_LT(message.size(), 600u) << message;
    return message;
  }
  // Whatever was accepted can be read.
  for (const auto& [key, value] : contents->metadata) {
    if (const auto* array = std::get_if<GgufArray>(&value.value)) {
      EXPECT_EQ(DecodeArray(*array).size(), array->count) << key;
    }
  }
  for (const GgufTensor& tensor : contents->tensors) {
    EXPECT_EQ(tensor.bytes.size(), GgmlBytes(tensor.type, tensor.elems));
    if (!Info(tensor.type).decodable) continue;
    std::vector<float> values(tensor.elems);
    DequantizeRow(tensor.type, tensor.bytes.data(), values.size(), values.data());
  }
  return "";
}

template <typename V>
std::vector<std::byte> Overwrite(std::vector<std::byte> bytes, size_t position, V value) {
  EXPECT_LE(position + sizeof(V), bytes.size());
  std::memcpy(bytes.data() + position, &value, sizeof(V));
  return bytes;
}

// The position of `text` in the file.
size_t Find(const std::vector<std::byte>& bytes, const std::string& text) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t found = all.find(text);
  EXPECT_NE(found, std::string_view::npos) << text;
  return found;
}

TEST(GgufHostile, EveryTruncationFails) {
  for (const uint32_t version : {2u, 3u}) {
    const std::vector<std::byte> whole = SmallGguf(version);
    ASSERT_EQ(ParseError(whole), "");
    for (size_t size = 0; size < whole.size(); ++size) {
      const std::string error = ParseError({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)});
      ASSERT_THAT(error, HasSubstr("the file")) << size << " bytes";
    }
  }
}

TEST(GgufHostile, BytesAfterTheLastTensorAreIgnored) {
  std::vector<std::byte> bytes = SmallGguf();
  bytes.push_back(std::byte{1});
  EXPECT_EQ(ParseError(bytes), "");
}

TEST(GgufHostile, RefusesOtherFilesAndVersions) {
  const std::vector<std::byte> good = SmallGguf();
  EXPECT_THAT(ParseError(Overwrite(good, 0, 'X')), AllOf(HasSubstr("\"XGUF\""), HasSubstr("not a GGUF")));
  EXPECT_THAT(ParseError(Overwrite(good, 0, uint32_t{0x47475546})), HasSubstr("big-endian"));  // bytes "FUGG"
  EXPECT_THAT(ParseError(Overwrite(good, 4, uint32_t{0x03000000})), HasSubstr("big-endian"));
  EXPECT_THAT(ParseError(Overwrite(good, 4, uint32_t{0x02000000})), HasSubstr("big-endian"));
  for (const uint32_t version : {0u, 1u, 4u, 0xffffffffu}) {
    EXPECT_THAT(ParseError(Overwrite(good, 4, version)),
                AllOf(HasSubstr("GGUF version " + std::to_string(version)), HasSubstr("only 2 and 3")));
  }
}

TEST(GgufHostile, RefusesAbsurdCounts) {
  const std::vector<std::byte> good = SmallGguf();
  for (const uint64_t count : {uint64_t{4000}, kHuge, ~uint64_t{0}}) {
    EXPECT_THAT(ParseError(Overwrite(good, 8, count)), HasSubstr(std::to_string(count) + " tensors"));
    EXPECT_THAT(ParseError(Overwrite(good, 16, count)), HasSubstr(std::to_string(count) + " metadata entries"));
    const size_t strings = Find(good, "t.strings") + 9 + 4;
    EXPECT_THAT(ParseError(Overwrite(good, strings + 4, count)),
                AllOf(HasSubstr("\"t.strings\""), HasSubstr(std::to_string(count) + " elements")));
    EXPECT_THAT(ParseError(Overwrite(good, strings + 12, count)), HasSubstr("the value of metadata key \"t.strings\""));
    EXPECT_THAT(ParseError(Overwrite(good, 24, count)), HasSubstr("the key of metadata entry 0"));
    EXPECT_THAT(ParseError(Overwrite(good, Find(good, "scalar") - 8, count)), HasSubstr("the name of tensor 0"));
  }
  EXPECT_THAT(ParseError(Overwrite(good, 24, uint64_t{0})), HasSubstr("0 bytes and must have 1 to"));
  // One too few of each shifts what follows; both must be noticed.
  EXPECT_NE(ParseError(Overwrite(good, 16, uint64_t{16})), "");
}

TEST(GgufHostile, RefusesWrongValues) {
  const std::vector<std::byte> good = SmallGguf();
  const auto type_of = [&](const std::string& key) { return Find(good, key) + key.size(); };
  EXPECT_THAT(ParseError(Overwrite(good, type_of("t.u8"), uint32_t{13})),
              AllOf(HasSubstr("\"t.u8\""), HasSubstr("unknown value type 13")));
  EXPECT_THAT(ParseError(Overwrite(good, type_of("t.floats") + 4, uint32_t{99})),
              AllOf(HasSubstr("\"t.floats\""), HasSubstr("unknown value type 99")));
  EXPECT_THAT(ParseError(Overwrite(good, type_of("t.bool") + 4, uint8_t{2})),
              AllOf(HasSubstr("\"t.bool\""), HasSubstr("the value 2")));
  EXPECT_THAT(ParseError(Overwrite(good, type_of("t.bools") + 17, uint8_t{255})),
              AllOf(HasSubstr("\"t.bools\""), HasSubstr("the value 255")));
  EXPECT_THAT(ParseError(Overwrite(good, Find(good, "t.i16"), std::array{'t', '.', 'u', '1', '6'})),
              AllOf(HasSubstr("\"t.u16\""), HasSubstr("twice")));
  for (const uint32_t alignment : {0u, 3u, 48u, 0x80000000u}) {
    EXPECT_THAT(ParseError(Overwrite(good, type_of("general.alignment") + 4, alignment)),
                HasSubstr("general.alignment is " + std::to_string(alignment) + " and must be a power of two"));
  }
  EXPECT_THAT(ParseError(Overwrite(good, type_of("general.alignment"), uint32_t{6})),
              HasSubstr("general.alignment is f32"));
}

TEST(GgufHostile, RefusesDeepNesting) {
  GgufBuilder builder;
  builder.Header(3, 0, 1).Key("deep", T::kArray);
  for (int depth = 0; depth < 100000; ++depth) builder.ArrayHead(T::kArray, 1);
  EXPECT_THAT(ParseError(builder.bytes), AllOf(HasSubstr("\"deep\""), HasSubstr("nests")));
}

// One tensor with the given description and `data_bytes` bytes of data.
std::vector<std::byte> OneTensor(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset, size_t data_bytes) {
  GgufBuilder builder;
  builder.Header(3, 1, 0).Tensor("x", dims, type, offset).PadTo(32);
  builder.bytes.resize(builder.bytes.size() + data_bytes);
  return builder.bytes;
}

TEST(GgufHostile, RefusesWrongTensors) {
  EXPECT_EQ(ParseError(OneTensor({32, 2}, 2, 0, 36)), "");
  EXPECT_THAT(ParseError(OneTensor({32, 2}, 2, 0, 35)), AllOf(HasSubstr("36 bytes of tensor \"x\""), HasSubstr("35")));
  EXPECT_THAT(ParseError(OneTensor({32, 2}, 2, 32, 36)), HasSubstr("past the end"));
  EXPECT_THAT(ParseError(OneTensor({32, 2}, 2, kHuge, 36)), HasSubstr("past the end"));
  EXPECT_THAT(ParseError(OneTensor({32, 2}, 2, ~uint64_t{31}, 36)), HasSubstr("past the end"));
  EXPECT_THAT(ParseError(OneTensor({32, 2}, 2, 16, 100)), HasSubstr("offset 16, which is not a multiple"));
  EXPECT_THAT(ParseError(OneTensor({33, 2}, 2, 0, 100)), AllOf(HasSubstr("rows of 33"), HasSubstr("32-value blocks")));
  EXPECT_THAT(ParseError(OneTensor({128}, 12, 0, 1000)), AllOf(HasSubstr("256-value blocks"), HasSubstr("Q4_K")));
  EXPECT_THAT(ParseError(OneTensor({}, 2, 0, 100)), HasSubstr("rows of 1 values"));
  EXPECT_THAT(ParseError(OneTensor({32, 0}, 2, 0, 100)), HasSubstr("dimension 1 of tensor \"x\" is 0"));
  EXPECT_THAT(ParseError(OneTensor({1, 1, 1, 1, 1}, 0, 0, 100)), HasSubstr("5 dimensions"));
  EXPECT_THAT(ParseError(OneTensor({uint64_t{1} << 32, uint64_t{1} << 32}, 0, 0, 100)), HasSubstr("multiply to more"));
  EXPECT_THAT(ParseError(OneTensor({~uint64_t{0}}, 0, 0, 100)), HasSubstr("multiply to more"));
  EXPECT_THAT(ParseError(OneTensor({uint64_t{1} << 60}, 0, 0, 100)), HasSubstr("past the end"));
  EXPECT_THAT(ParseError(OneTensor({32}, 31, 0, 100)), AllOf(HasSubstr("unknown type 31"), HasSubstr("Q6_K")));
  EXPECT_THAT(ParseError(OneTensor({32}, 0xffffffffu, 0, 100)), HasSubstr("unknown type 4294967295"));
}

TEST(GgufHostile, RefusesSharedNamesAndSharedBytes) {
  GgufBuilder twice;
  twice.Header(3, 2, 0).Tensor("x", {8}, 0, 0).Tensor("x", {8}, 0, 32).PadTo(32);
  twice.bytes.resize(twice.bytes.size() + 64);
  EXPECT_THAT(ParseError(twice.bytes), AllOf(HasSubstr("\"x\""), HasSubstr("twice")));
  GgufBuilder overlap;
  overlap.Header(3, 2, 0).Tensor("later", {8}, 0, 32).Tensor("first", {9}, 0, 0).PadTo(32);
  overlap.bytes.resize(overlap.bytes.size() + 64);
  EXPECT_THAT(ParseError(overlap.bytes), AllOf(HasSubstr("\"first\""), HasSubstr("\"later\""), HasSubstr("overlap")));
}

TEST(GgufHostile, AcceptsAFileWithoutTensors) {
  GgufBuilder builder;
  builder.Header(3, 0, 1).Scalar<uint32_t>("x", T::kU32, 1);
  EXPECT_EQ(ParseError(builder.bytes), "");
  EXPECT_EQ(ParseError(GgufBuilder().Header(2, 0, 0).bytes), "");
}

// Every byte of the file, set to the values that most often turn lengths into traps.
TEST(GgufHostile, EveryByteReplaced) {
  const std::vector<std::byte> good = SmallGguf();
  for (size_t position = 0; position < good.size(); ++position) {
    for (const uint8_t value : {0x00, 0x01, 0x7f, 0x80, 0xff}) ParseError(Overwrite(good, position, value));
  }
}

TEST(GgufHostile, RandomDamageOpensOrGivesAnError) { ExpectDamageIsReadOrRefused(SmallGguf(), 2024, ParseError); }

}  // namespace
}  // namespace kvant
