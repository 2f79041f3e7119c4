// What arch/llama refuses, and that it does so in one sentence that names the file and the thing.
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/io/temporary_file_for_test.h"
#include "kvant/model/llama_test_file.h"
#include "kvant/model/model.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The message after the file's path and ": "; fails the test when the file loads.
std::string Refusal(const LlamaTestFile& llama) {
  const TemporaryFile file(llama.Bytes());
  const auto model = Model::Load(file.path());
  if (model) {
    ADD_FAILURE() << "the file loads";
    return "";
  }
  const std::string& message = model.error().message;
  EXPECT_EQ(message.rfind(file.path() + ": ", 0), 0u) << message;
  EXPECT_THAT(message, Not(HasSubstr("\n")));
  return message.substr(std::min(message.size(), file.path().size() + 2));
}

void ExpectLoads(const LlamaTestFile& llama) {
  const TemporaryFile file(llama.Bytes());
  const auto model = Model::Load(file.path());
  EXPECT_TRUE(model.has_value()) << model.error().message;
}

TEST(Llama, LoadsTheFileThatTheOtherTestsBreak) {
  const TemporaryFile file(LlamaTestFile().Bytes());
  const auto model = Model::Load(file.path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  const ModelConfig& config = model->config();
  EXPECT_EQ(config.architecture, "llama");
  EXPECT_EQ(config.name, "unnamed");
  EXPECT_EQ(config.hidden, 64u);
  EXPECT_EQ(config.vocabulary, 96u);
  EXPECT_EQ(config.context_limit, 4096u);
  EXPECT_TRUE(config.tied_head);
  ASSERT_EQ(config.layers.size(), 2u);
  const AttentionConfig& at = config.layers[1].attention;
  EXPECT_EQ(at.q_heads, 2u);
  EXPECT_EQ(at.kv_heads, 1u);
  EXPECT_EQ(at.k_head_dim, 32u);
  EXPECT_FLOAT_EQ(at.score_scale, 0.1767766953f);  // 1 / sqrt(32)
  EXPECT_EQ(config.rotary_frequencies.size(), 16u);
  EXPECT_FLOAT_EQ(config.rotary_frequencies[8], 0.01f);  // 10000^(-16/32)
}

TEST(Llama, EveryKeyThatIsNeeded) {
  for (const char* key :
       {"general.architecture", "llama.embedding_length", "llama.context_length", "llama.block_count",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"}) {
    LlamaTestFile llama;
    llama.DropKey(key);
    EXPECT_THAT(Refusal(llama), HasSubstr(key));
  }
}

TEST(Llama, KeysThatHaveADefault) {
  LlamaTestFile llama;
  llama.DropKey("llama.attention.key_length");
  llama.DropKey("llama.attention.value_length");
  llama.DropKey("llama.rope.dimension_count");
  ExpectLoads(llama);  // 64 / 2 = 32
  LlamaTestFile all_heads({.q_heads = 2, .kv_heads = 2});
  all_heads.DropKey("llama.attention.head_count_kv");
  ExpectLoads(all_heads);
}

TEST(Llama, SizesOfZeroAndHostileSizes) {
  for (const char* key : {"llama.embedding_length", "llama.context_length", "llama.block_count",
                          "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv",
                          "llama.attention.key_length", "llama.attention.value_length", "llama.rope.dimension_count"}) {
    LlamaTestFile llama;
    llama.SetU32(key, 0);
    EXPECT_THAT(Refusal(llama), HasSubstr(std::string(key) + " is 0"));
    if (std::string(key) == "llama.context_length") continue;  // nothing has that size
    for (const uint32_t size : {UINT32_MAX, 0x80000000u, 1u << 20, (1u << 20) + 1}) {
      llama.SetU32(key, size);
      EXPECT_NE(Refusal(llama), "") << key << " " << size;
    }
    llama.SetText(key, "64");
    EXPECT_THAT(Refusal(llama), HasSubstr(key));
  }
  LlamaTestFile llama;  // products of sizes that are all at their limits
  for (const char* key : {"llama.embedding_length", "llama.feed_forward_length", "llama.attention.head_count"}) {
    llama.SetU32(key, 1u << 20);
  }
  llama.SetU32("llama.attention.key_length", 512);
  llama.SetU32("llama.attention.value_length", 512);
  llama.SetU32("llama.rope.dimension_count", 512);
  EXPECT_THAT(Refusal(llama), HasSubstr("token_embd.weight"));
}

TEST(Llama, HeadsThatDoNotDivide) {
  LlamaTestFile uneven({.q_heads = 3, .kv_heads = 2});
  EXPECT_THAT(Refusal(uneven), HasSubstr("3 query heads cannot share 2 KV heads"));
  LlamaTestFile more_kv({.q_heads = 2, .kv_heads = 4});
  EXPECT_THAT(Refusal(more_kv), HasSubstr("2 query heads cannot share 4 KV heads"));
  // 97 / 3 = 32 with a remainder of 1: a size from a division that does not come out.
  LlamaTestFile rest({.hidden = 97, .q_heads = 3, .kv_heads = 3});
  ExpectLoads(rest);
  rest.DropKey("llama.attention.key_length");
  EXPECT_THAT(Refusal(rest), HasSubstr("3 heads do not divide llama.embedding_length 97"));
  // More heads than channels must not give a head size of 0.
  LlamaTestFile many;
  many.DropKey("llama.attention.key_length");
  many.DropKey("llama.attention.value_length");
  many.DropKey("llama.rope.dimension_count");
  many.SetU32("llama.attention.head_count", 128);
  EXPECT_THAT(Refusal(many), HasSubstr("128 heads do not divide"));
  LlamaTestFile kv;
  kv.SetU32("llama.attention.head_count", 8192);
  kv.SetU32("llama.attention.head_count_kv", 8192);
  EXPECT_THAT(Refusal(kv), HasSubstr("8192 KV heads"));
}

// The range of codec.h, for keys and values alike.
TEST(Llama, HeadSizes) {
  for (const uint32_t head_dim : {32, 40, 72, 80, 512}) ExpectLoads(LlamaTestFile({.head_dim = head_dim}));
  for (const uint32_t head_dim : {8, 16, 24, 31, 33, 36, 100, 508, 520, 1024}) {
    EXPECT_THAT(Refusal(LlamaTestFile({.head_dim = head_dim})),
                HasSubstr("head size " + std::to_string(head_dim) + " is not supported"));
    LlamaTestFile values;
    values.SetU32("llama.attention.value_length", head_dim);
    EXPECT_THAT(Refusal(values), HasSubstr("head size " + std::to_string(head_dim) + " is not supported"));
  }
}

TEST(Llama, Rotation) {
  LlamaTestFile partial;
  partial.SetU32("llama.rope.dimension_count", 16);
  EXPECT_THAT(Refusal(partial), HasSubstr("llama.rope.dimension_count is 16 and the head size 32"));
  LlamaTestFile yarn;
  yarn.SetText("llama.rope.scaling.type", "yarn");
  EXPECT_THAT(Refusal(yarn), HasSubstr("llama.rope.scaling.type \"yarn\""));
  yarn.SetText("llama.rope.scaling.type", "none");
  ExpectLoads(yarn);
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    LlamaTestFile linear;
    linear.SetF32(key, 4.0f);
    EXPECT_THAT(Refusal(linear), HasSubstr(std::string(key) + " is 4"));
    linear.SetF32(key, 1.0f);
    ExpectLoads(linear);
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {0.0f, -1.0f, inf, std::nanf("")}) {
    LlamaTestFile llama;
    llama.SetF32("llama.rope.freq_base", bad);
    EXPECT_THAT(Refusal(llama), HasSubstr("rope base"));
    llama.SetF32("llama.rope.freq_base", 10000.0f);
    llama.SetF32("llama.attention.layer_norm_rms_epsilon", bad);
    EXPECT_THAT(Refusal(llama), HasSubstr("norm epsilon"));
    llama.SetF32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    std::vector<float> divisors(16, 1.0f);
    divisors[7] = bad;
    llama.Add({"rope_freqs.weight", {16}, GgmlType::kF32, divisors});
    EXPECT_THAT(Refusal(llama), HasSubstr("rope_freqs.weight[7]"));
    llama.At("rope_freqs.weight").values.assign(16, 2.0f);
    ExpectLoads(llama);
    llama.At("rope_freqs.weight") = {"rope_freqs.weight", {15}, GgmlType::kF32, {}};
    EXPECT_THAT(Refusal(llama), HasSubstr("rope_freqs.weight has 15 values"));
  }
}

TEST(Llama, OtherKindsOfModel) {
  LlamaTestFile experts;
  experts.SetU32("llama.expert_count", 8);
  EXPECT_THAT(Refusal(experts), HasSubstr("mixture of 8 experts"));
  LlamaTestFile window;
  window.SetU32("llama.attention.sliding_window", 4096);
  EXPECT_THAT(Refusal(window), HasSubstr("sliding window (4096 tokens)"));
  LlamaTestFile other;
  other.SetText("general.architecture", "mamba\x1b[2J");
  EXPECT_THAT(Refusal(other), HasSubstr("architecture \"mamba\\x1b[2J\" is not supported (supported: llama)"));
}

// Each of these is part of the computation where it exists: ignoring it would give a quiet wrong answer.
TEST(Llama, TensorsThatNothingReads) {
  for (const char* name :
       {"blk.0.attn_q.bias", "blk.1.attn_k.bias", "blk.0.attn_v.bias", "blk.0.attn_output.bias", "blk.1.ffn_up.bias",
        "blk.0.ffn_gate.bias", "blk.0.ffn_down.bias", "blk.0.attn_q_norm.weight", "blk.0.ffn_gate_exps.weight",
        "blk.2.attn_norm.weight", "output_norm.bias", "output.bias"}) {
    LlamaTestFile llama;
    llama.Add({name, {64}, GgmlType::kF32, {}});
    EXPECT_THAT(Refusal(llama), HasSubstr(std::string("tensor ") + name + " is not supported"));
  }
  LlamaTestFile fewer;  // the file has two layers and says one
  fewer.SetU32("llama.block_count", 1);
  EXPECT_THAT(Refusal(fewer), HasSubstr("tensor blk.1.attn_norm.weight is not supported"));
  LlamaTestFile more;
  more.SetU32("llama.block_count", 3);
  EXPECT_THAT(Refusal(more), HasSubstr("tensor \"blk.2.attn_norm.weight\" is missing"));
}

const std::vector<std::string>& Names() {
  static const std::vector<std::string> names = {
      "token_embd.weight",     "output_norm.weight",  "blk.1.attn_norm.weight",   "blk.1.attn_q.weight",
      "blk.1.attn_k.weight",   "blk.1.attn_v.weight", "blk.0.attn_output.weight", "blk.0.ffn_norm.weight",
      "blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"};
  return names;
}

TEST(Llama, MissingTensors) {
  for (const std::string& name : Names()) {
    LlamaTestFile llama;
    llama.DropTensor(name);
    EXPECT_THAT(Refusal(llama), HasSubstr("tensor \"" + name + "\" is missing"));
  }
}

TEST(Llama, TensorsOfWrongShape) {
  for (const std::string& name : Names()) {
    const std::vector<uint64_t> dims = LlamaTestFile().At(name).dims;
    std::vector<std::vector<uint64_t>> wrong = {{}, {dims[0] + 32}, {1, dims[0], 3}, {dims[0], 1, 2}};
    if (dims.size() == 2) {
      wrong.push_back({dims[0] * dims[1]});  // as many values, in one row
      wrong.push_back({dims[0], dims[1], 2});
      wrong.push_back({dims[0] / 2, dims[1] * 2});
      wrong.push_back({dims[0] + 32, dims[1]});
      // The embedding's rows are the vocabulary, which nothing else fixes.
      if (name != "token_embd.weight") wrong.push_back({dims[0], dims[1] - 1});
    } else {
      wrong.push_back({dims[0], 1});
      wrong.push_back({dims[0] / 2, 2});
    }
    for (const std::vector<uint64_t>& bad : wrong) {
      LlamaTestFile llama;
      llama.At(name) = {name, bad, GgmlType::kF32, {}};
      EXPECT_THAT(Refusal(llama), HasSubstr(name)) << testing::PrintToString(bad);
    }
  }
  LlamaTestFile head;  // an own head of another vocabulary
  head.Add({"output.weight", {64, 95}, GgmlType::kF32, {}});
  EXPECT_THAT(Refusal(head), HasSubstr("output.weight is 95 x 64"));
  head.At("output.weight").dims[1] = 96;
  ExpectLoads(head);
}

TEST(Llama, TensorTypesThatCannotBeRead) {
  for (const std::string& name : Names()) {
    LlamaTestFile llama;
    const std::vector<uint64_t> dims = llama.At(name).dims;
    llama.At(name) = {name, dims, GgmlType::kI32, {}};
    EXPECT_THAT(Refusal(llama), testing::AllOf(HasSubstr("\"" + name + "\" has type I32"), HasSubstr("Q4_1")));
  }
}

TEST(Llama, QuantizedTensorsLoad) {
  for (const GgmlType type : {GgmlType::kF16, GgmlType::kBF16, GgmlType::kQ8_0, GgmlType::kQ4_1}) {
    LlamaTestFile llama;
    llama.At("blk.0.attn_q.weight") = {"blk.0.attn_q.weight", {64, 64}, type, {}};
    ExpectLoads(llama);
  }
}

}  // namespace
}  // namespace kvant
