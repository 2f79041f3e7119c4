#include "kvant/io/safetensors.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/result_for_test.h"
#include "kvant/io/damage_for_test.h"
#include "kvant/io/temporary_file_for_test.h"

namespace kvant {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::byte> FileOf(const std::string& header, const std::vector<std::byte>& data) {
  std::vector<std::byte> bytes(8 + header.size() + data.size());
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  if (!data.empty()) std::memcpy(bytes.data() + 8 + header.size(), data.data(), data.size());
  return bytes;
}

template <typename T>
void Append(std::vector<std::byte>& bytes, std::initializer_list<T> values) {
  for (const T value : values) {
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), first, first + sizeof(T));
  }
}

std::vector<std::byte> SmallFile() {
  std::vector<std::byte> data;
  Append<float>(data, {1.5f, -2.0f, 3.0f, 0.25f});
  Append<uint16_t>(data, {0x3c00, 0xc000});       // F16: 1, -2
  Append<uint16_t>(data, {0x3f80, 0xc040});       // BF16: 1, -3
  Append<int32_t>(data, {-7});                    // I32, shape []
  Append<int64_t>(data, {int64_t{1} << 40, -1});  // I64
  Append<uint8_t>(data, {1});                     // BOOL
  return FileOf(R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
                R"("h\u0061lf":{"dtype":"F16","shape":[2],"data_offsets":[16,20]},)"
                R"("b":{"shape":[1,2],"dtype":"BF16","data_offsets":[20,24]},)"
                R"("i":{"dtype":"I32","shape":[],"data_offsets":[24,28]},)"
                R"("l":{"dtype":"I64","shape":[2],"data_offsets":[28,44]},)"
                R"("e":{"dtype":"F32","shape":[0,3],"data_offsets":[44,44]},)"
                R"("t":{"dtype":"BOOL","shape":[1],"data_offsets":[44,45]}}   )",
                data);
}

// "" when it parses; the buffer has the exact size for the address sanitizer.
std::string ParseError(const std::vector<std::byte>& bytes) {
  const std::vector<std::byte> exact(bytes.begin(), bytes.end());
  const Result<SafetensorsIndex> tensors = ParseSafetensors("file", exact);
  if (tensors) {
    size_t total = 0;
    for (const auto& [name, tensor] : *tensors) {
      for (const std::byte byte : tensor.bytes) total += std::to_integer<size_t>(byte) + 1;
    }
    EXPECT_LE(total, bytes.size() * 256);
    return "";
  }
  const std::string& message = tensors.error().message;
  EXPECT_TRUE(message.starts_with("file: ")) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u) << message;
  return message;
}

std::string HeaderError(const std::string& header, size_t data_bytes) {
  return ParseError(FileOf(header, std::vector<std::byte>(data_bytes)));
}

TEST(Safetensors, ReadsEveryDtypeItPromises) {
  const TemporaryFile temporary(SmallFile());
  const Result<SafetensorsFile> file = SafetensorsFile::Open(temporary.path());
  ASSERT_TRUE(file) << ErrorOf(file);
  EXPECT_EQ(file->tensors().size(), 7u);
  EXPECT_THAT(file->Tensor("a").value()->shape, ElementsAre(2u, 2u));
  EXPECT_THAT(file->Floats("a").value(), ElementsAre(1.5f, -2.0f, 3.0f, 0.25f));
  EXPECT_THAT(file->Floats("half").value(), ElementsAre(1.0f, -2.0f));
  EXPECT_THAT(file->Floats("b").value(), ElementsAre(1.0f, -3.0f));
  EXPECT_THAT(file->Floats("e").value(), ElementsAre());
  EXPECT_TRUE(file->Tensor("i").value()->shape.empty());
  EXPECT_THAT(file->Integers("i").value(), ElementsAre(-7));
  EXPECT_THAT(file->Integers("l").value(), ElementsAre(int64_t{1} << 40, -1));
  EXPECT_THAT(ErrorOf(file->Floats("i")), AllOf(HasSubstr("\"i\" has dtype I32"), HasSubstr(temporary.path())));
  EXPECT_THAT(ErrorOf(file->Integers("a")), HasSubstr("\"a\" has dtype F32"));
  EXPECT_THAT(ErrorOf(file->Floats("t")), HasSubstr("dtype BOOL"));
  EXPECT_THAT(ErrorOf(file->Tensor("nothing")), AllOf(HasSubstr("\"nothing\""), HasSubstr("missing")));
}

// Values read from the files with the Python package safetensors.
TEST(Safetensors, ReadsTheParityReferences) {
  const Result<SafetensorsFile> llama =
      SafetensorsFile::Open(KVANT_SOURCE_DIR "/tests/parity/llama/reference.safetensors");
  ASSERT_TRUE(llama) << ErrorOf(llama);
  EXPECT_EQ(llama->tensors().size(), 36u);
  const std::vector<int64_t> tokens = llama->Integers("tokens").value();
  ASSERT_EQ(tokens.size(), 160u);
  EXPECT_THAT(std::vector<int64_t>(tokens.begin(), tokens.begin() + 5), ElementsAre(90, 318, 138, 16, 303));
  EXPECT_EQ(tokens.back(), 128);
  EXPECT_THAT(llama->Tensor("k_post_rope_1").value()->shape, ElementsAre(160u, 2u, 32u));
  const std::vector<float> logits = llama->Floats("logits").value();
  ASSERT_EQ(logits.size(), 160u * 320u);
  EXPECT_EQ(logits[159 * 320 + 317], -0x1.a10986p+1f);
  EXPECT_EQ(logits[159 * 320 + 319], 0x1.b772fep+2f);
  const Result<SafetensorsFile> llama31 =
      SafetensorsFile::Open(KVANT_SOURCE_DIR "/tests/parity/llama31/reference.safetensors");
  ASSERT_TRUE(llama31) << ErrorOf(llama31);
  EXPECT_EQ(llama31->tensors().size(), 42u);
  EXPECT_EQ(llama31->Floats("logits").value().at(159 * 320 + 318), -0x1.88aa72p-2f);
}

TEST(SafetensorsHostile, EveryTruncationAndOneByteMoreFail) {
  std::vector<std::byte> whole = SmallFile();
  ASSERT_EQ(ParseError(whole), "");
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_NE(ParseError({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)}), "") << size;
  }
  whole.push_back(std::byte{0});
  EXPECT_THAT(ParseError(whole), HasSubstr("1 bytes that belong to no tensor"));
}

TEST(SafetensorsHostile, RefusesAbsurdHeaders) {
  for (const uint64_t length : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{100'000'001}, uint64_t{100'000}}) {
    std::vector<std::byte> bytes = SmallFile();
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_THAT(ParseError(bytes), HasSubstr("a safetensors header of " + std::to_string(length) + " bytes"));
  }
  EXPECT_THAT(HeaderError("", 0), HasSubstr("does not begin with {"));
  EXPECT_THAT(HeaderError("[1]", 0), HasSubstr("does not begin with {"));
  EXPECT_THAT(HeaderError("{\"a\":", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError("{} x", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError("{\"\xff\":1}", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(HeaderError("{\"a\":" + std::string(1'000'000, '['), 0), HasSubstr("an array is not allowed"));
  EXPECT_THAT(HeaderError("{\"a\":{\"shape\":[" + std::string(1'000'000, '{'), 0),
              HasSubstr("an object is not allowed"));
  EXPECT_THAT(HeaderError("{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", 0), HasSubstr("more than 16"));
  EXPECT_EQ(HeaderError("{}", 0), "");
}

std::string EntryError(const std::string& entry, size_t data_bytes) {
  return HeaderError("{\"x\":{" + entry + "}}", data_bytes);
}

TEST(SafetensorsHostile, RefusesWrongEntries) {
  EXPECT_EQ(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[0,8])", 8), "");
  EXPECT_THAT(EntryError(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])", 8),
              AllOf(HasSubstr("\"x\""), HasSubstr("unknown dtype \"F33\"")));
  EXPECT_THAT(EntryError(R"("dtype":"F16","shape":[2],"data_offsets":[0,8])", 8),
              HasSubstr("8 bytes of data where 2 values of F16 need 4"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[0,12])", 8), HasSubstr("[0, 12]"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", 8), HasSubstr("[8, 0]"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615])", 8),
              HasSubstr("18446744073709551615"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551616])", 8),
              HasSubstr("is not allowed"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])", 0),
              HasSubstr("more values than"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[-1],"data_offsets":[0,8])", 8), HasSubstr("the number -1"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])", 8), HasSubstr("the number 2.0"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[true],"data_offsets":[0,8])", 8), HasSubstr("a bool"));
  EXPECT_THAT(EntryError(R"("dtype":null,"shape":[2],"data_offsets":[0,8])", 8), HasSubstr("null"));
  EXPECT_THAT(EntryError(R"("dtype":["F32"],"shape":[2],"data_offsets":[0,8])", 8), HasSubstr("an array"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":2,"data_offsets":[0,8])", 8), HasSubstr("the number 2"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":"2","data_offsets":[0,8])", 8), HasSubstr("a string"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1)", 8), HasSubstr("unknown field"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8])", 8), HasSubstr("twice"));
  EXPECT_THAT(EntryError(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,8])", 8), HasSubstr("two data_offsets"));
  EXPECT_THAT(EntryError(R"("shape":[2],"data_offsets":[0,8])", 8), HasSubstr("needs dtype"));
  EXPECT_THAT(HeaderError(R"({"x":7})", 0), HasSubstr("the number 7 is not allowed in the entry \"x\""));
  EXPECT_THAT(HeaderError(R"({"__metadata__":{"a":1}})", 0), HasSubstr("the number 1"));
  EXPECT_THAT(HeaderError(R"({"__metadata__":"a"})", 0), HasSubstr("a string"));
}

TEST(SafetensorsHostile, RefusesSharedAndUnusedBytes) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"p":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"q":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(HeaderError(two("[4,8]", "[0,4]"), 8), "");
  EXPECT_THAT(HeaderError(two("[0,4]", "[3,7]"), 7), AllOf(HasSubstr("\"q\""), HasSubstr("overlaps")));
  EXPECT_THAT(HeaderError(two("[0,4]", "[0,4]"), 4), HasSubstr("overlaps"));
  EXPECT_THAT(HeaderError(two("[0,4]", "[5,9]"), 9), AllOf(HasSubstr("\"q\""), HasSubstr("unused bytes")));
  EXPECT_THAT(HeaderError(R"({"p":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                          R"("p":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                          2),
              AllOf(HasSubstr("\"p\""), HasSubstr("twice")));
}

TEST(SafetensorsHostile, RandomDamageOpensOrGivesAnError) { ExpectDamageIsReadOrRefused(SmallFile(), 77, ParseError); }

}  // namespace
}  // namespace kvant
