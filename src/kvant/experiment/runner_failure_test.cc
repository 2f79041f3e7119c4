// Cells that fail, and what is refused before a run.
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/experiment/test_lab.h"
#include "kvant/io/temporary_file_for_test.h"
#include "kvant/model/llama_test_file.h"

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kFailingSpec[] = R"(name = "lab"
question = "What fails?"
model = "crafted"
text = "ids"
contexts = [16]
spans = [{end = 100, length = 20}, {end = 160, length = 24}]
chunk = 16
[[arm]]
name = "k4"
policy = "k=q4_0 v=f32"
[[arm]]
name = "v1"
policy = "k=f32 v=affine1/g32"
[[arm]]
name = "v_f16"
policy = "k=f32 v=f16"
)";

std::vector<int32_t> Ids(size_t count, size_t vocabulary) {
  const CounterRng rng(12);
  std::vector<int32_t> ids(count);
  for (size_t index = 0; index < count; ++index) ids[index] = static_cast<int32_t>(rng.Below(index, vocabulary));
  return ids;
}

Model Load(const LlamaTestFile& llama) {
  const TemporaryFile file(llama.Bytes());
  return *Model::Load(file.path());
}

// Channels 0 and 32 of v are equal, and the output matrix takes 2^121 times their difference: exactly 0 for exact
// values (a power of two rounds nothing), and beyond f32 for values that one bit holds, since the group of channel 32
// spans tens of thousands.
Model ModelThatOverflowsOnCoarseValues() {
  constexpr size_t kHidden = 64;
  LlamaTestFile llama({.layers = 1, .q_heads = 1, .kv_heads = 1, .head_dim = 64});
  std::vector<float>& v = llama.At("blk.0.attn_v.weight").values;
  for (size_t channel = 0; channel < kHidden; ++channel) v[32 * kHidden + channel] = v[channel];
  for (size_t row = 33; row < 64; ++row) {
    for (size_t channel = 0; channel < kHidden; ++channel) v[row * kHidden + channel] *= 5000;
  }
  std::vector<float>& out = llama.At("blk.0.attn_output.weight").values;
  for (size_t row = 0; row < kHidden; ++row) {
    for (size_t channel = 0; channel < 64; ++channel) {
      if (row == 0 || channel == 0 || channel >= 32) out[row * 64 + channel] = 0;
    }
  }
  out[0] = 0x1p121f;
  out[32] = -0x1p121f;
  return Load(llama);
}

TEST(RunnerFailure, AFailedCellIsARecordAndTheRunGoesOn) {
  const Model model = ModelThatOverflowsOnCoarseValues();
  TestLab lab(model, Ids(160, 96));
  const std::string spec = Replaced(kFailingSpec, R"([[arm]]
name = "v_f16"
policy = "k=f32 v=f16"
)",
                                    "");
  const RunSummary summary = lab.Run(spec);
  EXPECT_EQ(summary.new_cells, 5u);
  EXPECT_EQ(summary.failed_cells, 2u);
  EXPECT_FALSE(summary.stopped);
  ASSERT_THAT(Labels(summary), ElementsAre("identity", "k4", "v1", "k4", "v1"));
  for (const CellRecord& cell : summary.cells) {
    if (cell.key.arm == "v1") {
      EXPECT_EQ(cell.status, CellStatus::kFailed);
      EXPECT_THAT(cell.reason, HasSubstr("scored token 0: the logits are not finite: the policy's error"));
      EXPECT_TRUE(std::isnan(cell.mean_kl));
      EXPECT_FALSE(cell.date.empty());
      EXPECT_GT(cell.bytes_v, 0u);  // what was measured before it failed is kept
    } else {
      EXPECT_EQ(cell.status, CellStatus::kOk) << cell.reason;
      EXPECT_TRUE(std::isfinite(cell.mean_kl));
    }
  }
  EXPECT_GT(summary.cells[1].mean_kl, 0.0);
  EXPECT_EQ(lab.sink.updates.back().done_cells, 5u);
  // Failed cells alone are tried again.
  const RunSummary again = lab.Run(spec);
  EXPECT_EQ(again.new_cells, 2u);
  EXPECT_EQ(again.failed_cells, 2u);
  ASSERT_FALSE(lab.sink.updates.empty());
  EXPECT_EQ(lab.sink.updates.front().done_cells, 3u);
  EXPECT_EQ(lab.sink.updates.back().done_cells, 5u);
  EXPECT_EQ(lab.sink.updates.back().done_tokens, lab.sink.updates.back().total_tokens);
}

TEST(RunnerFailure, ABrokenModelIsNotThePoliciesFault) {
  LlamaTestFile llama({.head_dim = 64});
  llama.At("token_embd.weight").values[5 * 64 + 3] = std::nanf("");
  const Model model = Load(llama);
  TestLab lab(model, Ids(160, 96));
  const RunSummary summary = lab.Run(kFailingSpec);
  EXPECT_EQ(summary.new_cells, 7u);
  EXPECT_EQ(summary.failed_cells, 7u);
  for (const CellRecord& cell : summary.cells) {
    EXPECT_THAT(cell.reason, HasSubstr("the reference's logits are not finite"));
  }
}

TEST(RunnerFailure, IdsOfAnotherVocabularyEndTheRun) {
  const Model model = Load(LlamaTestFile({.head_dim = 64}));
  TestLab lab(model, Ids(160, 4000));
  RecordingSink sink;
  const auto summary = lab.TryRun(kFailingSpec, sink);
  ASSERT_FALSE(summary.has_value());
  EXPECT_THAT(summary.error().message, HasSubstr("is outside the model's vocabulary of 96"));
}

std::string CheckError(const std::string& spec_text, const Model& model, size_t text_tokens = 1000,
                       std::optional<int32_t> bos = std::nullopt) {
  const auto spec = ParseExperiment(spec_text, "dir/lab.toml");
  EXPECT_TRUE(spec.has_value()) << spec.error().message;
  ExperimentInputs inputs;
  inputs.tokens.resize(text_tokens);
  inputs.bos = bos;
  const auto status = CheckAgainstModel(*spec, model.config(), inputs);
  return status ? "" : status.error().message;
}

TEST(CheckAgainstModel, AcceptsWhatFits) {
  const Model model = Load(LlamaTestFile({.head_dim = 64}));
  EXPECT_EQ(CheckError(kFailingSpec, model), "");
  EXPECT_EQ(CheckError(kFailingSpec, model, 160), "");
}

// The BOS takes one of the tokens that the model was trained for.
TEST(CheckAgainstModel, CountsTheBos) {
  LlamaTestFile llama({.head_dim = 64});
  llama.SetU32("llama.context_length", 40);  // the spec feeds at most 16 + 24
  const Model model = Load(llama);
  EXPECT_EQ(CheckError(kFailingSpec, model), "");
  EXPECT_THAT(CheckError(kFailingSpec, model, 1000, 1), HasSubstr("and the BOS exceed"));
}

TEST(CheckAgainstModel, AllErrorsTogetherWithTheirPlaces) {
  LlamaTestFile llama;  // heads of 32, two layers
  llama.SetU32("llama.context_length", 39);
  const Model model = Load(llama);
  const std::string error = CheckError(R"(name = "lab"
question = "What is wrong here?"
model = "crafted"
text = "ids"
contexts = [16]
spans = [{end = 100, length = 20}, {end = 160, length = 24}]
reference = "k=f99 v=f32"
[[arm]]
name = "syntax"
policy = "k=q4_0 w=f32"
[[arm]]
name = "good"
policy = "k=q4_0 v=f32"
[[arm]]
name = "group"
  policy   =   "k=f32 v=affine4/g64"
[[arm]]
name = "layer"
policy = 'k=f32 v=f32 v[2]=q4_0'
)",
                                       model, 150);
  std::vector<std::string> lines;
  for (size_t at = 0; at <= error.size();) {
    const size_t end = std::min(error.find('\n', at), error.size());
    lines.push_back(error.substr(at, end - at));
    at = end + 1;
  }
  ASSERT_EQ(lines.size(), 6u) << error;
  EXPECT_THAT(lines[0], testing::AllOf(HasSubstr("dir/lab.toml:7:14: "), HasSubstr("f99")));
  EXPECT_THAT(lines[1], testing::AllOf(HasSubstr("dir/lab.toml:10:11: "), HasSubstr("at character 7: unknown key")));
  EXPECT_THAT(lines[2], testing::AllOf(HasSubstr("dir/lab.toml:16:17: "), HasSubstr("values of layer 0: affine4/g64")));
  EXPECT_THAT(lines[3], testing::AllOf(HasSubstr("dir/lab.toml:19:11: "), HasSubstr("v[2] names a layer")));
  EXPECT_THAT(lines[4], testing::AllOf(HasSubstr("dir/lab.toml: "), HasSubstr("token 160 is beyond text 'ids'")));
  EXPECT_THAT(lines[5], HasSubstr("a context of 16 tokens and a span of 24 exceed the 39 tokens"));
}

}  // namespace
}  // namespace kvant
