#include "kvant/experiment/runner.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/eval/divergence.h"
#include "kvant/eval/prefill_run.h"
#include "kvant/experiment/test_lab.h"
#include "kvant/model/parity_test_model.h"

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const ParityModel& Parity() {
  static const ParityModel model("llama31");
  return model;
}

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() : lab_(Parity().model, Parity().tokens) {}
  TestLab lab_;
};

TEST_F(RunnerTest, CellsAndTheirOrder) {
  const RunSummary summary = lab_.Run(kTestSpec);
  EXPECT_FALSE(summary.stopped);
  EXPECT_EQ(summary.new_cells, 12u);
  EXPECT_EQ(summary.failed_cells, 0u);
  EXPECT_EQ(summary.spec_hash.size(), 64u);
  ASSERT_THAT(Labels(summary), ElementsAre("identity", "floor", "k4", "v4", "k4", "v4",  //
                                           "identity", "floor", "k4", "v4", "k4", "v4"));
  for (size_t index = 0; index < 12; ++index) {
    const CellRecord& cell = summary.cells[index];
    EXPECT_EQ(cell.key.context, index < 6 ? 16u : 40u);
    EXPECT_EQ(cell.key.span_end, index % 6 < 4 ? 100u : 160u);
    EXPECT_EQ(cell.key.span_length, index % 6 < 4 ? 20u : 24u);
    EXPECT_EQ(cell.key.chunk, cell.key.arm == "floor" ? 7u : 16u);
    EXPECT_EQ(cell.key.mode, "prefill");
    EXPECT_EQ(cell.status, CellStatus::kOk);
    EXPECT_EQ(cell.scored, cell.key.span_length);
    EXPECT_EQ(cell.values_k, (cell.key.context + cell.key.span_length) * 3 * 64);  // 3 layers, 1 head of 64
    EXPECT_EQ(cell.threads, 2u);
    EXPECT_EQ(cell.date.size(), 20u) << cell.date;
    EXPECT_GT(cell.seconds, 0.0);
    const bool exact = cell.key.arm == "identity" || cell.key.arm == "floor";
    if (exact) {
      for (const double kl : cell.tokens.kl) EXPECT_EQ(kl, 0.0);
      EXPECT_EQ(cell.top1, 1.0);
      EXPECT_EQ(cell.tokens.nll, cell.tokens.ref_nll);
      EXPECT_EQ(cell.rows_quantized, 0u);
    } else {
      EXPECT_GT(cell.mean_kl, 1e-4);
      EXPECT_GT(cell.rows_quantized, 0u);
    }
  }
  EXPECT_EQ(summary.cells[0].cache_hash, summary.cells[1].cache_hash);
  EXPECT_NE(summary.cells[0].cache_hash, summary.cells[2].cache_hash);
  EXPECT_EQ(summary.cells[2].bytes_k, 36u * 3 * 2 * 18);  // q4_0: 18 bytes for each 32 of 64 values
  EXPECT_EQ(lab_.store->Experiments()->at(0).spec_text, kTestSpec);
}

TEST_F(RunnerTest, ACellIsWhatPrefillAndCompareGive) {
  const RunSummary summary = lab_.Run(kTestSpec);
  const CellRecord& cell = summary.cells[11];  // v4, 40 before 160
  ThreadPool pool(1);
  Transformer transformer(Parity().model, pool);
  const SpanTokens span = *CutSpan(Parity().tokens, {160, 24, 40}, std::nullopt);
  const PrefillRun reference = *RunPrefill(transformer, *ParsePolicy("k=f32 v=f32"), span, 16);
  const PrefillRun arm = *RunPrefill(transformer, *ParsePolicy("k=f32 v=q4_0 window=8"), span, 16);
  const Divergence want = *Compare(transformer, pool, reference.hidden.data(), arm.hidden.data(),
                                   std::span(Parity().tokens).subspan(136, 24));
  EXPECT_EQ(cell.tokens.kl, want.kl);
  EXPECT_EQ(cell.tokens.nll, want.nll);
  EXPECT_EQ(cell.tokens.ref_nll, want.ref_nll);
  EXPECT_EQ(cell.tokens.agree, want.agree);
  EXPECT_EQ(cell.mean_kl, want.MeanKl());
  EXPECT_EQ(cell.ref_ppl, want.RefPpl());
  EXPECT_EQ(cell.cache_hash, arm.cache_hash);
  EXPECT_EQ(cell.rows_exact, arm.rows_exact);
}

TEST_F(RunnerTest, ASecondRunAddsNothing) {
  const RunSummary first = lab_.Run(kTestSpec);
  const RunSummary second = lab_.Run(kTestSpec);
  EXPECT_EQ(second.new_cells, 0u);
  EXPECT_EQ(second.failed_cells, 0u);
  EXPECT_EQ(second.spec_hash, first.spec_hash);
  ExpectSameNumbers(first, second);
  for (size_t index = 0; index < first.cells.size(); ++index) {
    EXPECT_EQ(first.cells[index].seconds, second.cells[index].seconds);  // the record of the first run
  }
  EXPECT_TRUE(lab_.sink.updates.empty());
}

// Policies are part of the experiment's hash: another set of arms is another experiment, and the old cells stay.
TEST_F(RunnerTest, AddedAndDeletedArms) {
  const RunSummary first = lab_.Run(kTestSpec);
  const std::string more = std::string(kTestSpec) + "[[arm]]\nname = \"k8\"\npolicy = \"k=q8_0 v=f32\"\n";
  const RunSummary added = lab_.Run(more);
  EXPECT_NE(added.spec_hash, first.spec_hash);
  EXPECT_EQ(added.new_cells, 16u);
  EXPECT_EQ(Labels(added).at(4), "k8");
  const RunSummary deleted = lab_.Run(kTestSpec);
  EXPECT_EQ(deleted.new_cells, 0u);
  ExpectSameNumbers(first, deleted);
}

TEST_F(RunnerTest, RenamedAndReorderedArmsKeepTheirCells) {
  lab_.Run(kTestSpec);
  const RunSummary renamed = lab_.Run(Replaced(kTestSpec, "\"k4\"", "\"keys4\""));
  EXPECT_EQ(renamed.new_cells, 0u);
  EXPECT_THAT(Labels(renamed), ElementsAre("identity", "floor", "keys4", "v4", "keys4", "v4",  //
                                           "identity", "floor", "keys4", "v4", "keys4", "v4"));
  const std::string k4 = "[[arm]]\nname = \"k4\"\npolicy = \"k=q4_0 v=f32\"\n";
  const RunSummary reordered = lab_.Run(Replaced(kTestSpec, k4, "") + k4);
  EXPECT_EQ(reordered.new_cells, 0u);
  EXPECT_EQ(Labels(reordered)[2], "v4");
  EXPECT_EQ(Labels(reordered)[3], "k4");
}

TEST_F(RunnerTest, AnotherFloorIsMeasuredAndReplacesTheOldOneInTheSummary) {
  lab_.Run(kTestSpec);
  const RunSummary again = lab_.Run(Replaced(kTestSpec, "second_chunk = 7", "second_chunk = 9"));
  EXPECT_EQ(again.new_cells, 2u);
  ASSERT_EQ(again.cells.size(), 12u);
  EXPECT_EQ(again.cells[1].key.chunk, 9u);
  const RunSummary none = lab_.Run(Replaced(kTestSpec, "[floor]\nsecond_chunk = 7\n", ""));
  EXPECT_EQ(none.new_cells, 0u);
  EXPECT_EQ(none.cells.size(), 10u);
}

TEST_F(RunnerTest, OtherInputsAreAnotherExperiment) {
  const RunSummary first = lab_.Run(kTestSpec);
  lab_.inputs.text_hash = "another text";
  lab_.inputs.tokens = RandomTokens(160, 320, 8);
  const RunSummary other_text = lab_.Run(kTestSpec);
  EXPECT_EQ(other_text.new_cells, 12u);
  EXPECT_NE(other_text.cells[2].mean_kl, first.cells[2].mean_kl);
  lab_.inputs.model_hash = "another model";
  EXPECT_EQ(lab_.Run(kTestSpec).new_cells, 12u);
  EXPECT_EQ(lab_.Run(Replaced(kTestSpec, "chunk = 16", "chunk = 32")).new_cells, 12u);
  EXPECT_EQ(lab_.Run(Replaced(kTestSpec, "length = 24", "length = 25")).new_cells, 12u);
  EXPECT_EQ(lab_.store->Experiments()->size(), 5u);
}

TEST_F(RunnerTest, FailedCellsAreMeasuredAgain) {
  const RunSummary want = lab_.Run(kTestSpec);
  TestLab other(Parity().model, Parity().tokens);
  const ExperimentSpec spec = *ParseExperiment(kTestSpec, "lab.toml");
  ASSERT_TRUE(other.store->PutExperiment({want.spec_hash, "lab", "model hash", "text hash", kTestSpec, ""}));
  CellRecord failed;
  failed.key = want.cells[3].key;
  failed.status = CellStatus::kFailed;
  failed.reason = "the power went out";
  ASSERT_TRUE(*other.store->PutCell(want.spec_hash, failed));
  const RunSummary got = other.Run(kTestSpec);
  EXPECT_EQ(got.new_cells, 12u);
  EXPECT_EQ(got.failed_cells, 0u);
  ExpectSameNumbers(got, want);
  EXPECT_EQ(got.cells[3].reason, "");
}

// Wherever it is stopped, going on gives the numbers of one run.
TEST_F(RunnerTest, StopAndContinue) {
  const RunSummary whole = lab_.Run(kTestSpec);
  const size_t updates = lab_.sink.updates.size();
  size_t stops = 0;
  for (size_t stop_after = 1; stop_after < updates; stop_after += 11) {
    TestLab other(Parity().model, Parity().tokens);
    const RunSummary part = other.Run(kTestSpec, stop_after);
    stops += part.stopped ? 1 : 0;
    EXPECT_TRUE(part.stopped) << stop_after;
    EXPECT_LT(part.new_cells, 12u);
    EXPECT_EQ(part.cells.size(), part.new_cells);
    EXPECT_EQ(part.failed_cells, 0u);
    const RunSummary rest = other.Run(kTestSpec);
    EXPECT_FALSE(rest.stopped);
    EXPECT_EQ(part.new_cells + rest.new_cells, 12u);
    ExpectSameNumbers(rest, whole);
    // A resumed run counts what is there as done.
    EXPECT_EQ(other.sink.updates.front().done_cells, part.new_cells);
    EXPECT_EQ(other.sink.updates.front().total_cells, 12u);
  }
  EXPECT_GE(stops, 4u);
}

TEST_F(RunnerTest, ProgressEndsAtItsTotal) {
  for (const std::optional<int32_t> bos : {std::optional<int32_t>(), std::optional<int32_t>(316)}) {
    TestLab lab(Parity().model, Parity().tokens);
    lab.inputs.bos = bos;
    const RunSummary summary = lab.Run(kTestSpec);
    EXPECT_EQ(summary.new_cells, 12u);
    const std::vector<ProgressUpdate>& updates = lab.sink.updates;
    // Four spans and contexts, each with a reference: (5 + 3) runs of each context; a BOS is a token more.
    const size_t extra = bos ? 1 : 0;
    const size_t want = 5 * (36 + extra) + 3 * (40 + extra) + 5 * (60 + extra) + 3 * (64 + extra);
    size_t tokens = 0;
    size_t cells = 0;
    for (const ProgressUpdate& update : updates) {
      EXPECT_EQ(update.total_tokens, want);
      EXPECT_EQ(update.total_cells, 12u);
      EXPECT_LE(update.done_tokens, update.total_tokens);
      EXPECT_GE(update.done_tokens, tokens);
      EXPECT_GE(update.done_cells, cells);
      EXPECT_TRUE(std::isfinite(update.tokens_per_second));
      EXPECT_GE(update.seconds_left, 0.0);
      EXPECT_FALSE(update.what.empty());
      tokens = update.done_tokens;
      cells = update.done_cells;
    }
    EXPECT_EQ(tokens, want);
    EXPECT_EQ(cells, 12u);
    EXPECT_EQ(updates.back().seconds_left, 0.0);
  }
}

TEST_F(RunnerTest, BosComesBeforeTheContext) {
  const RunSummary without = lab_.Run(kTestSpec);
  TestLab lab(Parity().model, Parity().tokens);
  lab.inputs.bos = 316;
  const RunSummary with = lab.Run(kTestSpec);
  EXPECT_EQ(with.cells[0].values_k, without.cells[0].values_k + 3 * 64);
  EXPECT_EQ(with.cells[0].scored, without.cells[0].scored);
  EXPECT_NE(with.cells[0].cache_hash, without.cells[0].cache_hash);
}

TEST_F(RunnerTest, ThreadsChangeNoStoredNumber) {
  const RunSummary two = lab_.Run(kTestSpec);
  for (const size_t threads : {1, 3}) {
    TestLab other(Parity().model, Parity().tokens, threads);
    const RunSummary got = other.Run(kTestSpec);
    ExpectSameNumbers(got, two);
    EXPECT_EQ(got.cells[0].threads, threads);
  }
}

// It is the identity arm then, under its own name.
TEST_F(RunnerTest, AnArmThatIsTheReference) {
  const std::string spec = std::string(kTestSpec) + "[[arm]]\nname = \"same\"\npolicy = \"k=f32 v=f32\"\n";
  const RunSummary summary = lab_.Run(spec);
  EXPECT_EQ(summary.new_cells, 14u);  // 12 less 2 identity cells, and the arm on 2 spans of 2 contexts
  EXPECT_EQ(lab_.sink.updates.back().total_cells, 14u);
  ASSERT_EQ(summary.cells.size(), 14u);
  EXPECT_EQ(Labels(summary)[0], "floor");
  EXPECT_EQ(Labels(summary)[3], "same");
  EXPECT_EQ(summary.cells[3].mean_kl, 0.0);
  EXPECT_EQ(lab_.Run(spec).new_cells, 0u);
}

TEST_F(RunnerTest, ATextThatIsTooShortIsAnError) {
  lab_.inputs.tokens.resize(120);
  RecordingSink sink;
  const auto summary = lab_.TryRun(kTestSpec, sink);
  ASSERT_FALSE(summary.has_value());
  EXPECT_THAT(summary.error().message, HasSubstr("ends at token 160 but the text has only 120 tokens"));
}

}  // namespace
}  // namespace kvant
