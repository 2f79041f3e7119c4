#include "kvant/report/table.h"

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvant {
namespace {

using ::testing::HasSubstr;

ExperimentSpec Spec(std::vector<uint64_t> contexts) {
  ExperimentSpec spec;
  spec.arms = {{"k4", "k=q4_0 v=f32", {}}, {"v4", "k=f32 v=q4_0", {}}};
  spec.contexts = std::move(contexts);
  spec.spans = {{2000, 128}, {4000, 128}};
  return spec;
}

CellRecord Cell(const ArmSpec& arm, const SpanSpec& span, uint64_t context, double kl) {
  CellRecord cell;
  cell.key = {arm.name, arm.policy, span.end, span.length, context, "prefill", 512};
  for (uint64_t token = 0; token < span.length; ++token) {
    cell.tokens.kl.push_back(kl);
    cell.tokens.nll.push_back(2 + kl);
    cell.tokens.ref_nll.push_back(2);
    cell.tokens.agree.push_back(token < 16 ? 0 : 1);
  }
  cell.tokens.nll.pop_back();  // the last token has no target
  cell.tokens.ref_nll.pop_back();
  FillFromTokens(&cell);
  const bool keys = arm.name == "k4";
  cell.bytes_k = keys ? 18 : 128;
  cell.bytes_v = keys ? 128 : 18;
  cell.values_k = cell.values_v = 32;
  cell.seconds = 1.5;
  return cell;
}

std::vector<CellRecord> Cells(const ExperimentSpec& spec) {
  std::vector<CellRecord> cells;
  for (const ArmSpec& arm : spec.arms) {
    for (const SpanSpec& span : spec.spans) {
      for (const uint64_t context : spec.contexts)
        cells.push_back(Cell(arm, span, context, arm.name == "k4" ? 0.125 : 0.03125));
    }
  }
  return cells;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Constant KL: the interval has no width. exp(0.125) = 1.1331, exp(0.03125) = 1.0317; 112 of 128 tokens agree.
TEST(Table, ShowsEveryColumn) {
  const ExperimentSpec spec = Spec({256, 1024});
  EXPECT_EQ("\n" + ResultsTable(spec, Cells(spec)), R"(
arm  bpv K  bpv V           mean KL at 256          mean KL at 1024  p99 at 1024  top-1 %  ppl ratio    s
---------------------------------------------------------------------------------------------------------
k4    4.50  32.00     0.125 [0.125, 0.125]     0.125 [0.125, 0.125]        0.125    87.50     1.1331  6.0
v4   32.00   4.50  0.0312 [0.0312, 0.0312]  0.0312 [0.0312, 0.0312]       0.0312    87.50     1.0317  6.0
)");
}

TEST(Table, SaysWhatIsNotThere) {
  ExperimentSpec spec = Spec({256, 1024});
  std::vector<CellRecord> cells = Cells(spec);
  cells.erase(cells.begin());                 // k4, first span, 256
  cells.pop_back();                           // v4, last span, 1024
  cells.back().status = CellStatus::kFailed;  // v4, last span, 256
  cells.erase(cells.end() - 2);               // v4, first span, 1024
  spec.floor_second_chunk = 64;
  CellRecord floor = Cell({"floor", spec.reference, {}}, spec.spans[0], 256, 1e-8);
  floor.key.chunk = 64;
  cells.push_back(floor);
  const std::vector<std::string> lines = Lines(ResultsTable(spec, cells));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_THAT(lines[2], HasSubstr("1 of 2 spans"));
  EXPECT_THAT(lines[3], HasSubstr("1 of 2 spans"));
  EXPECT_THAT(lines[3], HasSubstr("not measured"));
  EXPECT_THAT(lines[4], HasSubstr("(floor)"));
  EXPECT_THAT(lines[4], HasSubstr("1.00e-08"));  // measured on one span only, which is fine for a floor
  EXPECT_EQ(ResultsTable(spec, {}).find("nan"), std::string::npos);
}

TEST(Table, FitsTheTerminalAndRepeatsTheArms) {
  const ExperimentSpec spec = Spec({256, 512, 1024, 2048, 4096, 8192});
  const std::vector<std::string> lines = Lines(ResultsTable(spec, Cells(spec)));
  size_t arms = 0;
  std::string all;
  for (const std::string& line : lines) {
    EXPECT_LE(line.size(), 120u);
    arms += line.rfind("k4", 0) == 0 ? 1 : 0;
    all += line;
  }
  EXPECT_EQ(arms, 2u);
  for (const char* head : {"at 256", "at 512", "mean KL at 8192", "p99 at 8192", "ppl ratio"})
    EXPECT_THAT(all, HasSubstr(head));
}

TEST(Table, MarkdownHasOneRowPerArm) {
  ExperimentSpec spec = Spec({256});
  spec.arms[0].name = "k_4";
  std::vector<CellRecord> cells = Cells(spec);
  const std::vector<std::string> lines = Lines(ResultsMarkdown(spec, cells));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "| arm | bpv K | bpv V | mean KL at 256 | p99 at 256 | top-1 % | ppl ratio | s |");
  EXPECT_EQ(lines[1], "|---|--:|--:|--:|--:|--:|--:|--:|");
  EXPECT_THAT(lines[2], HasSubstr("| k\\_4 |"));
}

TEST(Table, Attribution) {
  const std::vector<AttributionRow> rows = {{1024, 0.112, 0.0074, 0.154, 0.0346, {0.01, 0.06}}};
  EXPECT_EQ("\n" + AttributionTable("q4_0", rows), R"(
q4_0     K only   V only   both             both - K - V
--------------------------------------------------------
at 1024   0.112  0.00740  0.154  0.0346 [0.0100, 0.0600]
)");
  EXPECT_EQ(AttributionTable("q4_0", {}), "");
}

TEST(Verdicts, AreLinesWithTheirSentences) {
  const std::vector<BarVerdict> verdicts = {{"keys", "kl(k) > kl(v) in >= 5 of 6 spans at 9", Verdict::kPass, "6 of 6"},
                                            {"growth", "mean kl(v, 9) >= 1.5 * mean kl(v, 4)", Verdict::kNotMet,
                                             std::string(50, 'a') + " " + std::string(80, 'b')}};
  EXPECT_EQ(VerdictText(verdicts),
            "PASS       keys: kl(k) > kl(v) in >= 5 of 6 spans at 9\n"
            "           6 of 6\n"
            "NOT MET    growth: mean kl(v, 9) >= 1.5 * mean kl(v, 4)\n"
            "           " +
                std::string(50, 'a') +
                "\n"
                "           " +
                std::string(80, 'b') +
                "\n"
                "2 bars: 1 PASS, 1 NOT MET\n");
  EXPECT_EQ(VerdictText({}), "");
  EXPECT_THAT(VerdictMarkdown(verdicts), HasSubstr("- **NOT MET** growth: mean kl(v, 9) >= 1.5 \\* mean kl(v, 4)  \n"));
}

}  // namespace
}  // namespace kvant
