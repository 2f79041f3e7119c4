#include "kvant/io/dequantize.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kvant/base/cpu_target.h"
#include "kvant/base/each_target_test.h"
#include "kvant/base/rng.h"
#include "kvant/tensor/ggml_blocks.h"

namespace kvant {
namespace {

std::vector<GgmlType> DecodableTypes() {
  std::vector<GgmlType> types;
  for (uint32_t id = 0; id < 256; ++id) {
    const GgmlTypeInfo* info = FindGgmlType(id);
    if (info != nullptr && info->decodable) types.push_back(info->type);
  }
  return types;
}

bool SameFloat(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

using DequantizeTargets = EachTargetTest;

INSTANTIATE_TEST_SUITE_P(All, DequantizeTargets, testing::ValuesIn(SupportedTargets()), TargetOfTest);

std::vector<std::byte> FromHex(const std::string& hex) {
  std::vector<std::byte> bytes;
  for (size_t index = 0; index + 1 < hex.size(); index += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(index, 2), nullptr, 16)));
  }
  return bytes;
}

struct GoldenCase {
  GgmlType type;
  std::vector<std::byte> row;
  std::vector<float> values;
};

// Rows and values from an independent implementation, named in the file.
std::vector<GoldenCase> Golden() {
  std::ifstream file(KVANT_SOURCE_DIR "/tests/golden/ggml_dequant.json");
  const nlohmann::json golden = nlohmann::json::parse(file, nullptr, false);
  std::vector<GoldenCase> cases;
  if (!golden.is_object()) return cases;
  for (const nlohmann::json& entry : golden["cases"]) {
    for (const GgmlType type : DecodableTypes()) {
      if (entry["type"] != Info(type).name) continue;
      const std::vector<std::byte> values = FromHex(entry["values"]);
      GoldenCase one{type, FromHex(entry["bytes"]), std::vector<float>(values.size() / sizeof(float))};
      std::memcpy(one.values.data(), values.data(), values.size());
      cases.push_back(one);
    }
  }
  return cases;
}

void ExpectGolden(void (*decode)(GgmlType, const std::byte*, size_t, float*)) {
  const std::vector<GoldenCase> cases = Golden();
  ASSERT_EQ(cases.size(), DecodableTypes().size() - 1);  // every type but F32
  for (const GoldenCase& golden : cases) {
    ASSERT_EQ(GgmlBytes(golden.type, golden.values.size()), golden.row.size());
    std::vector<float> out(golden.values.size(), std::numeric_limits<float>::quiet_NaN());
    decode(golden.type, golden.row.data(), out.size(), out.data());
    for (size_t value = 0; value < out.size(); ++value) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[value]), std::bit_cast<uint32_t>(golden.values[value]))
          << Info(golden.type).name << " value " << value << ": " << out[value] << ", not " << golden.values[value];
    }
  }
}

TEST(Dequantize, ReferenceGivesTheBitsOfAnIndependentImplementation) { ExpectGolden(reference::DequantizeRow); }

TEST_P(DequantizeTargets, GivesTheBitsOfAnIndependentImplementation) { ExpectGolden(DequantizeRow); }

// Random bytes contain every scale, also infinities and NaNs; rows start at every offset and both buffers have the
// exact size, so that the address sanitizer sees one byte too much.
TEST_P(DequantizeTargets, EqualsReferenceAtEveryOffsetAndLength) {
  const CounterRng rng(11);
  uint64_t draw = 0;
  for (const GgmlType type : DecodableTypes()) {
    const GgmlTypeInfo& info = Info(type);
    for (size_t trial = 0; trial < 60; ++trial) {
      const size_t blocks = info.block_elems == 1 ? trial : 1 + trial % 5;
      const size_t elems = blocks * info.block_elems;
      const size_t offset = trial % 17;
      std::vector<std::byte> bytes(offset + GgmlBytes(type, elems));
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Bits(draw++));
      std::vector<float> expected(elems);
      std::vector<float> got(elems, -12345.0f);
      reference::DequantizeRow(type, bytes.data() + offset, elems, expected.data());
      DequantizeRow(type, bytes.data() + offset, elems, got.data());
      for (size_t value = 0; value < elems; ++value) {
        ASSERT_TRUE(SameFloat(got[value], expected[value])) << info.name << " trial " << trial << " value " << value
                                                            << ": " << got[value] << ", not " << expected[value];
      }
    }
  }
}

TEST_P(DequantizeTargets, ReadsEveryHalfAndEveryBfloat16) {
  std::vector<uint16_t> words(1 << 16);
  for (size_t word = 0; word < words.size(); ++word) words[word] = static_cast<uint16_t>(word);
  std::vector<float> expected(words.size());
  std::vector<float> got(words.size());
  const auto* row = reinterpret_cast<const std::byte*>(words.data());
  for (const GgmlType type : {GgmlType::kF16, GgmlType::kBF16}) {
    reference::DequantizeRow(type, row, words.size(), expected.data());
    DequantizeRow(type, row, words.size(), got.data());
    for (size_t word = 0; word < words.size(); ++word) {
      ASSERT_TRUE(SameFloat(got[word], expected[word])) << Info(type).name << " " << word;
    }
  }
}

// Each scale as a half through a block whose codes are all 1 * d: (9 - 8) * d.
TEST_P(DequantizeTargets, BroadcastsEveryScale) {
  for (uint32_t bits = 0; bits < (1u << 16); ++bits) {
    BlockQ4_0 block{};
    block.d = static_cast<uint16_t>(bits);
    std::memset(block.qs, 0x99, sizeof(block.qs));
    const uint16_t word = block.d;
    float expected = 0;
    reference::DequantizeRow(GgmlType::kF16, reinterpret_cast<const std::byte*>(&word), 1, &expected);
    float out[kGgmlBlock];
    DequantizeRow(GgmlType::kQ4_0, reinterpret_cast<const std::byte*>(&block), kGgmlBlock, out);
    for (const float x : out) ASSERT_TRUE(SameFloat(x, expected)) << bits;
  }
}

TEST(GgmlTypes, AreConsistent) {
  EXPECT_EQ(DecodableGgmlTypes(), "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K");
  for (const uint32_t withdrawn : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u, 42u, 0xffffffffu}) {
    EXPECT_EQ(FindGgmlType(withdrawn), nullptr) << withdrawn;
  }
  // Ids, blocks and bytes as listed in the format tables of ggml.
  const struct {
    uint32_t id;
    const char* name;
    uint32_t elems;
    uint32_t bytes;
  } expected[] = {
      {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},      {3, "Q4_1", 32, 20},
      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},      {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},
      {10, "Q2_K", 256, 84},    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
      {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66}, {17, "IQ2_XS", 256, 74},
      {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},   {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},
      {22, "IQ2_S", 256, 82},   {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
      {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},        {29, "IQ1_M", 256, 56},
      {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},   {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},
      {40, "NVFP4", 64, 36},    {41, "Q1_0", 128, 18},
  };
  for (const auto& one : expected) {
    const GgmlTypeInfo* info = FindGgmlType(one.id);
    ASSERT_NE(info, nullptr) << one.name;
    EXPECT_STREQ(info->name, one.name);
    EXPECT_EQ(info->block_elems, one.elems) << one.name;
    EXPECT_EQ(info->block_bytes, one.bytes) << one.name;
  }
}

}  // namespace
}  // namespace kvant
