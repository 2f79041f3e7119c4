#include "kvant/results/attribution.h"

#include <vector>

#include <gtest/gtest.h>

namespace kvant {
namespace {

CellRecord Cell(const std::string& arm, uint64_t end, uint64_t context, double kl) {
  CellRecord cell;
  cell.key = {arm, arm + " policy", end, 128, context, "prefill", 512};
  for (size_t token = 0; token < 128; ++token) {
    cell.tokens.kl.push_back(kl * (token < 64 ? 0.5 : 1.5));  // mean kl; two blocks that differ
    cell.tokens.nll.push_back(1);
    cell.tokens.ref_nll.push_back(1);
    cell.tokens.agree.push_back(1);
  }
  cell.tokens.nll.pop_back();  // the last token has no target
  cell.tokens.ref_nll.pop_back();
  FillFromTokens(&cell);
  return cell;
}

ExperimentSpec Spec() {
  ExperimentSpec spec;
  for (const char* name : {"k", "v", "kv"}) spec.arms.push_back({name, std::string(name) + " policy", {}});
  spec.contexts = {256, 1024};
  spec.spans = {{2000, 128}, {4000, 128}};
  return spec;
}

TEST(Attribution, InteractionIsWhatBothHaveBeyondTheSum) {
  std::vector<CellRecord> cells;
  for (const uint64_t end : {2000, 4000}) {
    cells.push_back(Cell("k", end, 256, 0.25));
    cells.push_back(Cell("v", end, 256, 0.125));
    cells.push_back(Cell("kv", end, 256, 0.5));
    cells.push_back(Cell("k", end, 1024, 0.25));  // context 1024 lacks the others
  }
  const std::vector<AttributionRow> rows = Attribute(Spec(), cells, {"k", "v", "kv"});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].context, 256u);
  EXPECT_EQ(rows[0].k_only, 0.25);
  EXPECT_EQ(rows[0].v_only, 0.125);
  EXPECT_EQ(rows[0].both, 0.5);
  EXPECT_EQ(rows[0].interaction, 0.125);
  // Blocks hold 0.0625 and 0.1875: the interval lies between them and around the mean.
  EXPECT_GE(rows[0].interaction_interval.low, 0.0625);
  EXPECT_LT(rows[0].interaction_interval.low, 0.125);
  EXPECT_GT(rows[0].interaction_interval.high, 0.125);
  EXPECT_LE(rows[0].interaction_interval.high, 0.1875);

  cells[2].status = CellStatus::kFailed;
  EXPECT_TRUE(Attribute(Spec(), cells, {"k", "v", "kv"}).empty());
}

}  // namespace
}  // namespace kvant
