#include "kvant/io/gguf.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/result_for_test.h"
#include "kvant/io/dequantize.h"
#include "kvant/io/gguf_parse.h"
#include "kvant/io/gguf_test_builder.h"
#include "kvant/io/printable.h"
#include "kvant/io/temporary_file_for_test.h"

namespace kvant {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

GgufFile OpenBytes(const std::vector<std::byte>& bytes) {
  const TemporaryFile file(bytes);  // the mapping outlives the name
  Result<GgufFile> opened = GgufFile::Open(file.path());
  EXPECT_TRUE(opened) << ErrorOf(opened);
  return opened ? std::move(*opened) : GgufFile();
}

std::vector<float> Values(const GgufTensor& tensor) {
  std::vector<float> values(tensor.elems);
  DequantizeRow(tensor.type, tensor.bytes.data(), values.size(), values.data());
  return values;
}

class GgufVersions : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Both, GgufVersions, testing::Values(2u, 3u));

TEST_P(GgufVersions, ReadsEveryValueType) {
  const GgufFile file = OpenBytes(SmallGguf(GetParam()));
  EXPECT_EQ(file.version(), GetParam());
  EXPECT_EQ(file.alignment(), 64u);
  EXPECT_EQ(file.metadata().size(), 17u);
  EXPECT_EQ(file.GetString("general.architecture").value(), "llama");
  EXPECT_EQ(file.GetU32("t.u8").value(), 200u);
  EXPECT_EQ(file.GetU32("t.u16").value(), 60000u);
  EXPECT_EQ(file.GetU64("t.u64").value(), uint64_t{1} << 40);
  EXPECT_EQ(file.GetF32("t.f32").value(), 1e-5f);
  EXPECT_EQ(file.GetF32("t.f64").value(), 0.25f);
  EXPECT_TRUE(file.GetBool("t.bool").value());
  EXPECT_EQ(std::get<int64_t>(file.Find("t.i8")->value), -3);
  EXPECT_EQ(std::get<int64_t>(file.Find("t.i16")->value), -300);
  EXPECT_EQ(std::get<int64_t>(file.Find("t.i32")->value), -70000);
  EXPECT_EQ(std::get<int64_t>(file.Find("t.i64")->value), -5);
  EXPECT_THAT(file.GetStringArray("t.strings").value(), ElementsAre("a", "", "\xc4\xa0the"));
  EXPECT_THAT(file.GetF32Array("t.floats").value(), ElementsAre(-1.5f, 0.0f));
  EXPECT_THAT(file.GetI32Array("t.ints").value(), ElementsAre(1, 2, 65535));
  EXPECT_THAT(file.GetBoolArray("t.bools").value(), ElementsAre(true, false, true));
  const std::vector<GgufValue> nested = DecodeArray(std::get<GgufArray>(file.Find("t.nested")->value));
  ASSERT_EQ(nested.size(), 2u);
  const std::vector<GgufValue> first = DecodeArray(std::get<GgufArray>(nested[0].value));
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(std::get<int64_t>(first[0].value), -1);
  EXPECT_EQ(std::get<int64_t>(first[1].value), 7);
  const std::vector<GgufValue> second = DecodeArray(std::get<GgufArray>(nested[1].value));
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(std::get<std::string_view>(second[0].value), "deep");
}

TEST_P(GgufVersions, ReadsTensorsOfEveryRank) {
  const GgufFile file = OpenBytes(SmallGguf(GetParam()));
  ASSERT_EQ(file.tensors().size(), 4u);
  const GgufTensor& scalar = *file.Tensor("scalar").value();
  EXPECT_EQ(scalar.rank, 0u);
  EXPECT_THAT(Values(scalar), ElementsAre(42.0f));
  const GgufTensor& norm = *file.Tensor("norm").value();
  EXPECT_EQ(norm.rows(), 1u);
  EXPECT_THAT(Values(norm), ElementsAre(0.5f, 1.5f, 2.5f, 3.5f, 4.5f));
  const GgufTensor& weight = *file.Tensor("weight").value();
  EXPECT_EQ(weight.type, GgmlType::kQ4_1);
  EXPECT_EQ(weight.row_elems(), 64u);
  EXPECT_EQ(weight.rows(), 3u);
  EXPECT_EQ(weight.row_bytes(), 40u);
  ASSERT_EQ(weight.bytes.size(), 120u);
  EXPECT_EQ(weight.bytes[119], std::byte{119});
  const GgufTensor& cube = *file.Tensor("cube").value();
  EXPECT_THAT(cube.dims, ElementsAre(2u, 1u, 3u, 2u));
  EXPECT_EQ(cube.rows(), 6u);
  EXPECT_EQ(Values(cube)[11], 1.0f + 11.0f / 1024);  // 0x3c00 + n is 1 + n / 1024
}

TEST(Gguf, GettersNameTheKeyTheTypeAndTheValue) {
  const GgufFile file = OpenBytes(SmallGguf());
  EXPECT_THAT(ErrorOf(file.GetU32("llama.block_count")),
              AllOf(HasSubstr(file.path()), HasSubstr("llama.block_count"), HasSubstr("missing")));
  EXPECT_THAT(ErrorOf(file.GetU32("t.i8")), AllOf(HasSubstr("t.i8"), HasSubstr("-3"), HasSubstr("negative")));
  EXPECT_THAT(ErrorOf(file.GetU32("t.u64")), AllOf(HasSubstr("1099511627776"), HasSubstr("below 2^32")));
  EXPECT_THAT(ErrorOf(file.GetU32("t.f32")), AllOf(HasSubstr("type f32"), HasSubstr("an integer is needed")));
  EXPECT_THAT(ErrorOf(file.GetF32("t.u8")), HasSubstr("type u8"));
  EXPECT_THAT(ErrorOf(file.GetBool("t.u8")), HasSubstr("a bool is needed"));
  EXPECT_THAT(ErrorOf(file.GetString("t.strings")), HasSubstr("type array of string"));
  EXPECT_THAT(ErrorOf(file.GetStringArray("t.floats")), HasSubstr("type array of f32"));
  EXPECT_THAT(ErrorOf(file.GetF32Array("t.ints")), HasSubstr("type array of u16"));
  EXPECT_THAT(ErrorOf(file.GetI32Array("t.floats")), HasSubstr("an array of integers is needed"));
  EXPECT_THAT(ErrorOf(file.GetBoolArray("t.u8")), HasSubstr("an array of bools is needed"));
  EXPECT_EQ(file.Find("nothing"), nullptr);
  EXPECT_EQ(file.GetU32Or("nothing", 7).value(), 7u);
  EXPECT_EQ(file.GetU32Or("t.u8", 7).value(), 200u);
  EXPECT_EQ(file.GetF32Or("nothing", 0.5f).value(), 0.5f);
  EXPECT_TRUE(file.GetBoolOr("nothing", true).value());
  EXPECT_EQ(file.GetStringOr("nothing", "x").value(), "x");
  EXPECT_THAT(ErrorOf(file.GetU32Or("t.f32", 7)), HasSubstr("type f32"));
}

TEST(Gguf, RefusesIntegersThatDoNotFitAnArray) {
  GgufBuilder builder;
  builder.Header(3, 0, 1);
  builder.Key("big", GgufValueType::kArray).ArrayHead(GgufValueType::kU64, 2);
  builder.Put<uint64_t>(5).Put<uint64_t>(uint64_t{1} << 31);
  EXPECT_THAT(ErrorOf(OpenBytes(builder.bytes).GetI32Array("big")), AllOf(HasSubstr("element 1"), HasSubstr("big")));
}

TEST(Gguf, RefusesATypeByNameOnlyWhenTheTensorIsAskedFor) {
  GgufBuilder builder;
  builder.Header(3, 1, 0).Tensor("blk.0.x", {256}, 17, 0).PadTo(32);
  for (int byte = 0; byte < 74; ++byte) builder.Put('\0');
  const GgufFile file = OpenBytes(builder.bytes);
  EXPECT_TRUE(file.HasTensor("blk.0.x"));
  EXPECT_EQ(file.tensors()[0].bytes.size(), 74u);
  EXPECT_THAT(ErrorOf(file.Tensor("blk.0.x")),
              AllOf(HasSubstr("tensor \"blk.0.x\" has type IQ2_XS, which is not supported; supported are F32, F16")));
  EXPECT_THAT(ErrorOf(file.Tensor("blk.1.x")), AllOf(HasSubstr("blk.1.x"), HasSubstr("missing")));
}

TEST(Gguf, LargeVocabularyIsReadInPlace) {
  constexpr uint64_t kTokens = 250000;
  GgufBuilder builder;
  builder.Header(3, 0, 1);
  builder.Key("tokens", GgufValueType::kArray).ArrayHead(GgufValueType::kString, kTokens);
  for (uint64_t token = 0; token < kTokens; ++token) builder.Text(std::to_string(token));
  const GgufFile file = OpenBytes(builder.bytes);
  const std::vector<std::string_view> tokens = file.GetStringArray("tokens").value();
  ASSERT_EQ(tokens.size(), kTokens);
  EXPECT_EQ(tokens[0], "0");
  EXPECT_EQ(tokens[249999], "249999");
  EXPECT_EQ(file.GetStringArray("tokens").value()[1].data(), tokens[1].data());  // the same bytes of the file
}

// Vocabulary-only files of others: GPT-2 has 256 bytes, 50,000 merges and one special token.
TEST(Gguf, ReadsRealVocabularies) {
  const char* texts = std::getenv("KVANT_TEXTS");
  if (texts == nullptr) GTEST_SKIP() << "KVANT_TEXTS is not set to a folder with vocab/ggml-vocab-gpt-2.gguf";
  const Result<GgufFile> gpt2 = GgufFile::Open(std::string(texts) + "/vocab/ggml-vocab-gpt-2.gguf");
  ASSERT_TRUE(gpt2) << ErrorOf(gpt2);
  EXPECT_EQ(gpt2->GetStringArray("tokenizer.ggml.tokens").value().size(), 50257u);
  EXPECT_EQ(gpt2->GetStringArray("tokenizer.ggml.merges").value().size(), 50000u);
  EXPECT_TRUE(gpt2->tensors().empty());
  const Result<GgufFile> llama = GgufFile::Open(std::string(texts) + "/vocab/ggml-vocab-llama-spm.gguf");
  ASSERT_TRUE(llama) << ErrorOf(llama);
  EXPECT_EQ(llama->GetStringArray("tokenizer.ggml.tokens").value().size(), 32000u);
  EXPECT_EQ(llama->GetF32Array("tokenizer.ggml.scores").value().size(), 32000u);
}

TEST(Gguf, MessagesShowHostileTextSafely) {
  EXPECT_EQ(Printable("a\"\n\xff\\"), "a\\x22\\x0a\\xff\\x5c");
  EXPECT_EQ(Printable(std::string(100, 'x')), std::string(80, 'x') + "... (100 bytes)");
}

using Shape = std::vector<uint64_t>;

// Shapes of a Llama model of 3 layers as its configuration implies; the last-but-one two values are the widths of q,
// kv.
std::map<std::string, Shape> LlamaShapes(uint64_t hidden, uint64_t mlp, uint64_t q_width, uint64_t kv_width) {
  std::map<std::string, Shape> shapes = {{"token_embd.weight", {hidden, 320}}, {"output_norm.weight", {hidden}}};
  for (int layer = 0; layer < 3; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    shapes[block + "attn_norm.weight"] = {hidden};
    shapes[block + "ffn_norm.weight"] = {hidden};
    shapes[block + "attn_q.weight"] = {hidden, q_width};
    shapes[block + "attn_k.weight"] = {hidden, kv_width};
    shapes[block + "attn_v.weight"] = {hidden, kv_width};
    shapes[block + "attn_output.weight"] = {q_width, hidden};
    shapes[block + "ffn_gate.weight"] = {hidden, mlp};
    shapes[block + "ffn_up.weight"] = {hidden, mlp};
    shapes[block + "ffn_down.weight"] = {mlp, hidden};
  }
  return shapes;
}

void ExpectShapes(const GgufFile& file, const std::map<std::string, Shape>& expected) {
  std::map<std::string, Shape> got;
  for (const GgufTensor& tensor : file.tensors()) {
    got[std::string(tensor.name)] = Shape(tensor.dims.begin(), tensor.dims.begin() + tensor.rank);
    EXPECT_EQ(tensor.type, GgmlType::kF32) << tensor.name;
    EXPECT_EQ(tensor.bytes.size(), tensor.elems * 4) << tensor.name;
  }
  EXPECT_EQ(got, expected);
}

float At(const GgufFile& file, const std::string& name, size_t row, size_t column) {
  const Result<const GgufTensor*> tensor = file.Tensor(name);
  EXPECT_TRUE(tensor) << ErrorOf(tensor);
  if (!tensor) return std::numeric_limits<float>::quiet_NaN();
  return Values(**tensor).at(row * (*tensor)->row_elems() + column);
}

// Values below were read from the model.safetensors that the GGUF files were converted from. A query or key row 2 j + h
// of a head in GGUF is row j + h * head_dim / 2 there.
TEST(GgufParity, Llama) {
  const Result<GgufFile> opened = GgufFile::Open(KVANT_SOURCE_DIR "/tests/parity/llama/llama.gguf");
  ASSERT_TRUE(opened) << ErrorOf(opened);
  const GgufFile& file = *opened;
  std::map<std::string, Shape> shapes = LlamaShapes(96, 64, 192, 64);
  shapes["output.weight"] = {96, 320};
  ExpectShapes(file, shapes);
  EXPECT_EQ(file.GetString("general.architecture").value(), "llama");
  EXPECT_EQ(file.GetU32("llama.attention.head_count_kv").value(), 2u);
  EXPECT_EQ(file.GetF32("llama.attention.layer_norm_rms_epsilon").value(), 1e-5f);
  EXPECT_TRUE(file.GetBool("tokenizer.ggml.add_bos_token").value());
  EXPECT_EQ(file.GetStringArray("tokenizer.ggml.tokens").value().size(), 320u);
  EXPECT_EQ(file.GetStringArray("tokenizer.ggml.merges").value().at(3), "\xc4\xa0t he");
  EXPECT_EQ(file.GetI32Array("tokenizer.ggml.token_type").value().size(), 320u);
  EXPECT_EQ(At(file, "output.weight", 0, 0), 0x1.08ecep-8f);
  EXPECT_EQ(At(file, "output.weight", 319, 95), -0x1.07d96cp-3f);
  EXPECT_EQ(At(file, "token_embd.weight", 319, 0), -0x1.242e3ep-2f);
  EXPECT_EQ(At(file, "output_norm.weight", 0, 1), 0x1.d06a2p-1f);
  EXPECT_EQ(At(file, "blk.1.ffn_down.weight", 95, 63), 0x1.4b90a8p-3f);
  EXPECT_EQ(At(file, "blk.1.attn_v.weight", 3, 5), -0x1.ef8cccp-3f);
  EXPECT_EQ(At(file, "blk.1.attn_q.weight", 0, 0), -0x1.802cbp-4f);
  EXPECT_EQ(At(file, "blk.1.attn_q.weight", 1, 0), -0x1.514ca4p-5f);
  EXPECT_EQ(At(file, "blk.1.attn_q.weight", 2, 0), -0x1.34b71ap-4f);
  EXPECT_EQ(At(file, "blk.1.attn_q.weight", 33, 0), -0x1.70b112p-5f);
  EXPECT_EQ(At(file, "blk.1.attn_k.weight", 1, 1), 0x1.17ce4p-6f);
}

TEST(GgufParity, Llama31) {
  const Result<GgufFile> opened = GgufFile::Open(KVANT_SOURCE_DIR "/tests/parity/llama31/llama31.gguf");
  ASSERT_TRUE(opened) << ErrorOf(opened);
  const GgufFile& file = *opened;
  std::map<std::string, Shape> shapes = LlamaShapes(64, 96, 128, 64);
  shapes["rope_freqs.weight"] = {32};
  ExpectShapes(file, shapes);
  EXPECT_FALSE(file.HasTensor("output.weight"));
  EXPECT_EQ(file.GetU32("llama.attention.key_length").value(), 64u);
  EXPECT_EQ(At(file, "token_embd.weight", 319, 0), 0x1.04b79cp-1f);
  EXPECT_EQ(At(file, "output_norm.weight", 0, 63), 0x1.177ce4p+0f);
  EXPECT_EQ(At(file, "blk.1.ffn_down.weight", 0, 2), 0x1.9ff424p-4f);
  EXPECT_EQ(At(file, "blk.1.attn_q.weight", 1, 0), -0x1.29bf22p-2f);
  EXPECT_EQ(At(file, "blk.1.attn_q.weight", 65, 0), 0x1.645bap-3f);
  EXPECT_EQ(At(file, "blk.1.attn_k.weight", 2, 1), 0x1.41a55ep-6f);
}

}  // namespace
}  // namespace kvant
