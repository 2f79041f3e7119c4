// A model, a text of token ids, a results file and a sink that remembers: what the runner's tests need.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "kvant/experiment/runner.h"

namespace kvant {

// Two arms, two contexts, two spans and a floor: 12 cells.
inline constexpr char kTestSpec[] = R"(name = "lab"
question = "Which hurts more?"
model = "parity"
text = "ids"
contexts = [16, 40]
spans = [{end = 100, length = 20}, {end = 160, length = 24}]
chunk = 16
[[arm]]
name = "k4"
policy = "k=q4_0 v=f32"
[[arm]]
name = "v4"
policy = "k=f32 v=q4_0 window=8"
[floor]
second_chunk = 7
)";

inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Asks to stop after `stop_after` updates, if that is given.
class RecordingSink : public ProgressSink {
 public:
  explicit RecordingSink(size_t stop_after = SIZE_MAX) : stop_after_(stop_after) {}
  void Update(const ProgressUpdate& update) override { updates.push_back(update); }
  bool Cancelled() const override { return updates.size() >= stop_after_; }

  std::vector<ProgressUpdate> updates;

 private:
  size_t stop_after_;
};

// A results file of its own, removed with the object.
class TestLab {
 public:
  TestLab(const Model& model, std::vector<int32_t> tokens, size_t threads = 2)
      : pool_(threads), transformer_(model, pool_) {
    static int count = 0;
    path_ = testing::TempDir() + "kvant_lab_" + std::to_string(getpid()) + "_" + std::to_string(count++) + ".db";
    std::filesystem::remove(path_);
    inputs = {std::move(tokens), std::nullopt, "model hash", "text hash"};
    store.emplace(*ResultsStore::Open(path_, OpenMode::kCreate));
  }
  ~TestLab() {
    store.reset();
    std::filesystem::remove(path_);
  }

  Result<RunSummary> TryRun(const std::string& spec_text, ProgressSink& progress) {
    const auto spec = ParseExperiment(spec_text, "lab.toml");
    if (!spec) return tl::unexpected<Error>(spec.error());
    return RunExperiment(*spec, spec_text, inputs, transformer_, pool_, *store, progress);
  }
  RunSummary Run(const std::string& spec_text, size_t stop_after = SIZE_MAX) {
    sink = RecordingSink(stop_after);
    auto summary = TryRun(spec_text, sink);
    EXPECT_TRUE(summary.has_value()) << summary.error().message;
    return summary ? *std::move(summary) : RunSummary();
  }

  ExperimentInputs inputs;
  std::optional<ResultsStore> store;
  RecordingSink sink;  // of the last Run

 private:
  std::string path_;
  ThreadPool pool_;
  Transformer transformer_;
};

inline std::vector<std::string> Labels(const RunSummary& summary) {
  std::vector<std::string> labels;
  for (const CellRecord& cell : summary.cells) labels.push_back(cell.key.arm);
  return labels;
}

// Everything that was measured but the time it took.
inline void ExpectSameNumbers(const RunSummary& a, const RunSummary& b) {
  ASSERT_EQ(a.cells.size(), b.cells.size());
  for (size_t index = 0; index < a.cells.size(); ++index) {
    const CellRecord& left = a.cells[index];
    const CellRecord& right = b.cells[index];
    const std::string cell = Describe(left.key);
    EXPECT_TRUE(SameCell(left.key, right.key)) << cell;
    EXPECT_EQ(left.key.arm, right.key.arm);
    EXPECT_EQ(left.status, right.status) << cell;
    EXPECT_EQ(left.tokens.kl, right.tokens.kl) << cell;
    EXPECT_EQ(left.tokens.nll, right.tokens.nll) << cell;
    EXPECT_EQ(left.tokens.ref_nll, right.tokens.ref_nll) << cell;
    EXPECT_EQ(left.tokens.agree, right.tokens.agree) << cell;
    EXPECT_EQ(left.mean_kl, right.mean_kl) << cell;
    EXPECT_EQ(left.cache_hash, right.cache_hash) << cell;
    EXPECT_EQ(left.bytes_k, right.bytes_k) << cell;
    EXPECT_EQ(left.bytes_v, right.bytes_v) << cell;
    EXPECT_EQ(left.rows_exact, right.rows_exact) << cell;
    EXPECT_EQ(left.rows_quantized, right.rows_quantized) << cell;
  }
}

}  // namespace kvant
