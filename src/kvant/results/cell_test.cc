#include "kvant/results/cell.h"

#include <cmath>
#include <set>
#include <string>

#include <gtest/gtest.h>

namespace kvant {
namespace {

TEST(Cell, BitsPerValueComeFromStoredBytes) {
  CellRecord record;
  EXPECT_TRUE(std::isnan(record.bpv_k()));
  record.bytes_k = 18 * 10;  // q4_0: 18 bytes for 32 values
  record.values_k = 32 * 10;
  record.bytes_v = 34 * 10;  // q8_0: 34 bytes for 32 values
  record.values_v = 32 * 10;
  EXPECT_EQ(record.bpv_k(), 4.5);
  EXPECT_EQ(record.bpv_v(), 8.5);
}

TEST(Cell, SummariesFollowFromTheTokens) {
  CellRecord record;
  record.tokens.kl = {0.0, 0.1, 0.2, 0.7};
  record.tokens.nll = {1.0, 2.5, 4.0};
  record.tokens.ref_nll = {1.0, 2.0, 3.0};
  record.tokens.agree = {1, 1, 0, 1};
  FillFromTokens(&record);
  EXPECT_EQ(record.status, CellStatus::kOk);
  EXPECT_EQ(record.scored, 4u);
  EXPECT_DOUBLE_EQ(record.mean_kl, 0.25);
  EXPECT_DOUBLE_EQ(record.p99_kl, 0.2 + 0.97 * 0.5);  // position 3 * 0.99 = 2.97
  EXPECT_EQ(record.top1, 0.75);
  EXPECT_EQ(record.nll, 2.5);
  EXPECT_EQ(record.ppl, std::exp(2.5));
  EXPECT_EQ(record.ref_nll, 2.0);
  EXPECT_EQ(record.ref_ppl, std::exp(2.0));
}

TEST(Cell, WithoutFiniteTokensItFails) {
  CellRecord broken;
  broken.tokens.kl = {0.1, std::nan("")};
  broken.tokens.nll = broken.tokens.ref_nll = {1.0};
  broken.tokens.agree = {1, 0};
  FillFromTokens(&broken);
  EXPECT_EQ(broken.status, CellStatus::kFailed);
  EXPECT_EQ(broken.reason, "1 of 2 scored tokens have a KL or a loss that is not finite");

  CellRecord empty;
  FillFromTokens(&empty);
  EXPECT_EQ(empty.status, CellStatus::kFailed);
  EXPECT_EQ(empty.reason, "no token was scored");
}

TEST(Cell, IdentityIsEverythingButTheLabel) {
  const CellKey key{"k4", "k=q4_0 v=f32", 2304, 256, 1024, "prefill", 512};
  CellKey other = key;
  other.arm = "renamed";
  EXPECT_TRUE(SameCell(key, other));
  for (int field = 0; field < 6; ++field) {
    CellKey changed = key;
    if (field == 0) changed.policy += " window=1";
    if (field == 1) ++changed.span_end;
    if (field == 2) ++changed.span_length;
    if (field == 3) ++changed.context;
    if (field == 4) changed.mode = "decode";
    if (field == 5) ++changed.chunk;
    EXPECT_FALSE(SameCell(key, changed)) << field;
  }
}

TEST(Cell, FieldNamesAreDistinct) {
  CellRecord record;
  std::set<std::string> names;
  size_t fields = 0;
  VisitCellFields(record, [&](const char* name, auto&) {
    names.insert(name);
    ++fields;
  });
  EXPECT_EQ(names.size(), fields);
}

}  // namespace
}  // namespace kvant
