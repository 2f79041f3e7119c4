#include "kvant/results/verdict.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/results/cell_table.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;

// Per-span KL of keys only and values only, 4 bits, at 65,536 tokens, as published for experiment E22J (2026-10-30).
const std::vector<double> kKeys = {0.0243, 0.0311, 0.0250, 0.0103, 0.0050, 0.0152};
const std::vector<double> kValues = {0.0074, 0.0176, 0.0125, 0.0043, 0.0044, 0.0088};

class Bench {
 public:
  Bench() {
    for (const char* name : {"k4", "v4", "id"}) spec_.arms.push_back({name, std::string("policy of ") + name, {}});
    spec_.contexts = {1024, 4096};
    for (uint64_t span = 1; span <= 6; ++span) spec_.spans.push_back({10000 * span, 256});
    for (size_t span = 0; span < 6; ++span) {
      Add("k4", span, 4096, kKeys[span]);
      Add("v4", span, 4096, kValues[span]);
      Add("k4", span, 1024, kKeys[span] / 2);
      Add("v4", span, 1024, kValues[span] / 1.25);
    }
  }

  CellRecord& Add(const std::string& arm, size_t span, uint64_t context, double kl) {
    CellRecord cell;
    cell.key = {arm, "policy of " + arm, spec_.spans[span].end, 256, context, "prefill", 512};
    cell.scored = 256;
    cell.mean_kl = kl;
    cell.p99_kl = 10 * kl;
    cell.top1 = 1 - kl;
    cell.ref_nll = 2.0 + 0.125 * static_cast<double>(span);
    cell.nll = cell.ref_nll + kl;
    cell.ppl = std::exp(cell.nll);
    cell.ref_ppl = std::exp(cell.ref_nll);
    cell.cache_hash = arm + std::to_string(span) + "/" + std::to_string(context);
    cells_.push_back(cell);
    return cells_.back();
  }

  void AddFloor(size_t span, uint64_t context, double kl) {
    spec_.floor_second_chunk = 64;
    CellRecord& cell = Add("floor", span, context, kl);
    cell.key.policy = spec_.reference;
    cell.key.chunk = 64;
  }

  CellRecord& At(const std::string& arm, size_t span, uint64_t context) {
    for (CellRecord& cell : cells_) {
      if (cell.key.arm == arm && cell.key.span_end == spec_.spans[span].end && cell.key.context == context) return cell;
    }
    ADD_FAILURE() << "no cell of " << arm;
    return cells_[0];
  }

  void Remove(const std::string& arm, size_t span, uint64_t context) {
    const CellRecord* cell = &At(arm, span, context);
    cells_.erase(cells_.begin() + (cell - cells_.data()));
  }

  BarVerdict Judge(const std::string& claim) const {
    BarSpec bar{"bar", claim, ParseClaim(claim).value()};
    ClaimScope scope{{}, spec_.contexts, spec_.spans.size()};
    for (const ArmSpec& arm : spec_.arms) scope.arms.push_back(arm.name);
    const Status status = CheckClaim(bar.claim, scope);
    EXPECT_TRUE(status.has_value()) << status.error().message;
    return JudgeBar(spec_, bar, cells_);
  }

  std::string Of(const std::string& claim) const { return std::string(ToText(Judge(claim).verdict)); }

  ExperimentSpec spec_;
  std::vector<CellRecord> cells_;
};

TEST(Verdict, CountsSpans) {
  const Bench bench;
  const BarVerdict verdict = bench.Judge("kl(k4) > kl(v4) in >= 5 of 6 spans at 4096");
  EXPECT_EQ(verdict.verdict, Verdict::kPass);
  EXPECT_EQ(verdict.sentence,
            "kl(k4, 4096) > kl(v4, 4096) in 6 of 6 spans, needed >= 5: 0.0243 > 0.0074, 0.0311 > 0.0176, "
            "0.025 > 0.0125, 0.0103 > 0.0043, 0.005 > 0.0044, 0.0152 > 0.0088");
  EXPECT_EQ(bench.Of("kl(v4) > kl(k4) in >= 5 of 6 spans at 4096"), "NOT MET");
  // Ratios are 3.3, 1.8, 2.0, 2.4, 1.1 and 1.7: five are above 1.5 and four above 1.75.
  EXPECT_EQ(bench.Of("kl(k4) > 1.5 * kl(v4) in >= 5 of 6 spans at 4096"), "PASS");
  EXPECT_EQ(bench.Of("kl(k4) > 1.75 * kl(v4) in >= 5 of 6 spans at 4096"), "NOT MET");
  EXPECT_EQ(bench.Of("kl(k4) > 1.75 * kl(v4) in >= 4 of 6 spans at 4096"), "PASS");
  EXPECT_EQ(bench.Of("kl(k4) > 1.75 * kl(v4) in < 5 of 6 spans at 4096"), "PASS");
  EXPECT_EQ(bench.Of("kl(v4, 4096) > kl(v4, 1024) in >= 6 of 6 spans"), "PASS");
  EXPECT_EQ(bench.Of("kl(v4, 4096) > 1.3 * kl(v4, 1024) in >= 1 of 6 spans"), "NOT MET");
  EXPECT_EQ(bench.Of("kl(k4) < 0.025 in >= 4 of 6 spans at 4096"), "PASS");  // 0.0250 itself does not count
  EXPECT_EQ(bench.Of("kl(k4) < 0.025 in >= 5 of 6 spans at 4096"), "NOT MET");
  EXPECT_EQ(bench.Of("kl(k4) <= 0.025 in >= 5 of 6 spans at 4096"), "PASS");
}

TEST(Verdict, CountsPairsOverAllContexts) {
  const Bench bench;
  // At 1024 keys stand at half of 4096 and values at four fifths: ratios 2.05, 1.10, 1.25, 1.50, 0.71, 1.08.
  const BarVerdict verdict = bench.Judge("kl(k4) > kl(v4) in >= 12 of 12 pairs");
  EXPECT_EQ(verdict.verdict, Verdict::kNotMet);
  EXPECT_EQ(verdict.sentence,
            "kl(k4) > kl(v4) in 11 of 12 pairs, needed >= 12; not in span 50000 context 1024 (0.0025 !> 0.00352)");
  EXPECT_EQ(bench.Of("kl(k4) > kl(v4) in >= 11 of 12 pairs"), "PASS");
}

TEST(Verdict, ComparesMeans) {
  const Bench bench;
  const BarVerdict verdict = bench.Judge("mean kl(v4, 4096) >= 1.5 * mean kl(v4, 1024)");
  EXPECT_EQ(verdict.verdict, Verdict::kNotMet);
  // The published means of 65,536 and 16,384 tokens stand the same way: 0.0092 against 0.0080, not met.
  EXPECT_EQ(verdict.sentence,
            "mean kl(v4, 4096) = 0.009167 is not >= 1.5 * mean kl(v4, 1024) = 0.011; the means stand 1.250 to 1");
  EXPECT_EQ(bench.Of("mean kl(v4, 4096) >= 1.2 * mean kl(v4, 1024)"), "PASS");
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) < 0.0186"), "PASS");  // the published mean is 0.0185
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) < 0.0184"), "NOT MET");
  EXPECT_EQ(bench.Of("0.0184 < mean kl(k4, 4096)"), "PASS");
  EXPECT_EQ(bench.Of("mean top1(v4, 4096) >= 0.99"), "PASS");
  EXPECT_EQ(bench.Of("mean top1(v4, 4096) >= 0.991"), "NOT MET");
  EXPECT_EQ(bench.Of("mean p99(v4, 4096) <= 0.092"), "PASS");
  // exp(mean KL) is 1.00921 here, since the losses differ by the KL.
  EXPECT_EQ(bench.Of("mean ppl(v4, 4096) <= 1.0093 * mean ppl(ref, 4096)"), "PASS");
  EXPECT_EQ(bench.Of("mean ppl(v4, 4096) <= 1.0091 * mean ppl(ref, 4096)"), "NOT MET");
  EXPECT_EQ(bench.Of("mean nll(ref, 4096) < 2.32"), "PASS");  // 2 + 0.125 * 2.5 = 2.3125
  EXPECT_EQ(bench.Of("mean nll(ref, 4096) < 2.31"), "NOT MET");
}

TEST(Verdict, ConjunctionsNeedEveryClause) {
  const Bench bench;
  EXPECT_EQ(bench.Of("kl(k4) > kl(v4) in >= 5 of 6 spans at 4096 and mean kl(v4, 4096) < 0.01"), "PASS");
  const BarVerdict verdict = bench.Judge("mean kl(v4, 4096) < 0.01 and mean kl(k4, 4096) < 0.01");
  EXPECT_EQ(verdict.verdict, Verdict::kNotMet);
  EXPECT_THAT(verdict.sentence, HasSubstr("mean kl(k4, 4096)"));
  EXPECT_THAT(verdict.sentence, ::testing::Not(HasSubstr("v4")));  // only what decided
}

TEST(Verdict, MissingCellsAreNamed) {
  Bench bench;
  bench.Remove("v4", 2, 4096);
  CellRecord& failed = bench.At("k4", 3, 4096);
  failed.status = CellStatus::kFailed;
  failed.reason = "out of memory";
  const BarVerdict verdict = bench.Judge("kl(k4) > kl(v4) in >= 1 of 6 spans at 4096");
  EXPECT_EQ(verdict.verdict, Verdict::kMissing);
  EXPECT_EQ(verdict.sentence,
            "v4 at context 4096 in the span that ends at 30000 is not measured; "
            "k4 at context 4096 in the span that ends at 40000 failed: out of memory");
  EXPECT_EQ(bench.Of("kl(k4) > kl(v4) in >= 5 of 6 spans at 1024"), "PASS");  // another context is whole
  EXPECT_EQ(bench.Of("mean kl(v4, 1024) > 1 and mean kl(v4, 4096) > 0.001"), "MISSING");
  EXPECT_THAT(bench.Judge("kl(id) > 1 in >= 5 of 12 pairs").sentence, HasSubstr("; and 4 more"));
  EXPECT_EQ(Bench().Of("mean nll(ref, 4096) < 9"), "PASS");
  Bench empty;
  empty.cells_.clear();
  EXPECT_EQ(empty.Of("mean nll(ref, 4096) < 9"), "MISSING");
}

TEST(Verdict, CellsOfAnotherSpecDoNotCount) {
  Bench bench;
  bench.At("k4", 0, 4096).key.chunk = 256;
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) > 0.001"), "MISSING");
  Bench renamed;
  for (CellRecord& cell : renamed.cells_) cell.key.arm = "old name";
  EXPECT_EQ(renamed.Of("mean kl(k4, 4096) > 0.001"), "PASS");  // found by policy
}

TEST(Verdict, ComparisonsThatCouldNotFailAreMistrusted) {
  Bench bench;
  EXPECT_EQ(bench.Of("kl(k4) >= kl(k4) in >= 5 of 6 spans at 4096"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) <= 1.5 * mean kl(k4, 4096)"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("mean nll(ref, 4096) <= mean nll(ref, 4096)"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("mean p99(k4, 4096) >= 5 * mean kl(k4, 4096)"), "PASS");  // two metrics of one arm may differ

  // Case 40: one flag ignored, both arms stored the same bytes.
  Bench same_bytes;
  same_bytes.At("v4", 4, 4096).cache_hash = same_bytes.At("k4", 4, 4096).cache_hash;
  const BarVerdict verdict = same_bytes.Judge("kl(k4) > kl(v4) in >= 5 of 6 spans at 4096");
  EXPECT_EQ(verdict.verdict, Verdict::kMistrusted);
  EXPECT_EQ(verdict.sentence,
            "kl(k4, 4096) and kl(v4, 4096) stored the same bytes (cache hash k44/4096) in the span that ends at 50000");
  EXPECT_EQ(same_bytes.Of("mean kl(k4) > mean kl(v4) at 4096"), "MISTRUSTED");
  EXPECT_EQ(same_bytes.Of("mean kl(k4) > mean kl(v4) at 1024"), "PASS");

  // The same without hashes: equal to the last bit.
  Bench same_numbers;
  CellRecord& k4 = same_numbers.At("k4", 1, 4096);
  CellRecord& v4 = same_numbers.At("v4", 1, 4096);
  k4.cache_hash = v4.cache_hash = "";
  v4.mean_kl = k4.mean_kl;
  EXPECT_EQ(same_numbers.Of("kl(k4) >= kl(v4) in >= 5 of 6 spans at 4096"), "PASS");  // one of two numbers may coincide
  v4.nll = k4.nll;
  EXPECT_EQ(same_numbers.Of("kl(k4) >= kl(v4) in >= 5 of 6 spans at 4096"), "MISTRUSTED");
}

TEST(Verdict, ArmsThatChangeNothingAreMistrusted) {
  Bench bench;
  for (const uint64_t context : bench.spec_.contexts) {
    for (size_t span = 0; span < 6; ++span) bench.Add("id", span, context, 0.0);
  }
  EXPECT_EQ(bench.Of("mean kl(id, 4096) < 0.01"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("mean ppl(id, 4096) <= 1.01 * mean ppl(ref, 4096)"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("kl(id, 4096) >= kl(id, 1024) in >= 5 of 6 spans"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("kl(k4) > kl(id) in >= 5 of 6 spans at 4096"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) >= 100 * mean kl(id, 4096)"), "MISTRUSTED");
}

TEST(Verdict, NothingBelowThreeTimesTheFloorIsADifference) {
  Bench bench;
  bench.AddFloor(0, 4096, 1e-4);  // differences at 4096: .0169 .0135 .0125 .0060 .0006 .0064
  EXPECT_EQ(bench.Of("kl(k4) > kl(v4) in >= 6 of 6 spans at 4096"), "PASS");
  bench.AddFloor(1, 4096, 2.5e-4);  // three times the larger one is .00075: span 5 is undecided
  EXPECT_EQ(bench.Of("kl(k4) > kl(v4) in >= 5 of 6 spans at 4096"), "PASS");
  EXPECT_EQ(bench.Of("kl(k4) < kl(v4) in >= 2 of 6 spans at 4096"), "NOT MET");
  const BarVerdict verdict = bench.Judge("kl(k4) > kl(v4) in >= 6 of 6 spans at 4096");
  EXPECT_EQ(verdict.verdict, Verdict::kMistrusted);
  EXPECT_THAT(verdict.sentence, HasSubstr("5 of 6 spans, needed >= 6; 1 differ by less than three times the floor"));
  EXPECT_THAT(verdict.sentence, HasSubstr("0.005 ~ 0.0044"));

  // Means at 4096: .0185 against .0092, .0093 apart.
  EXPECT_EQ(bench.Of("mean kl(k4) > mean kl(v4) at 4096"), "PASS");
  EXPECT_EQ(bench.Of("mean kl(k4) > 2 * mean kl(v4) at 4096"), "MISTRUSTED");  // .0185 against .0183, factor applied
  EXPECT_THAT(bench.Judge("mean kl(k4) > 2 * mean kl(v4) at 4096").sentence, HasSubstr("below three times the floor"));
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) < 0.0186"), "MISTRUSTED");
  EXPECT_EQ(bench.Of("mean kl(k4, 4096) < 0.02"), "PASS");
  // A context without its own floor takes the largest of the others: .0093 against .0073 at 1024.
  EXPECT_EQ(bench.Of("mean kl(k4) > mean kl(v4) at 1024"), "PASS");
  EXPECT_EQ(bench.Of("mean kl(k4) > 1.25 * mean kl(v4) at 1024"), "MISTRUSTED");
}

TEST(Verdict, AFloorThatWasAskedForMustBeMeasured) {
  Bench bench;
  bench.spec_.floor_second_chunk = 64;
  const BarVerdict verdict = bench.Judge("mean kl(k4, 4096) < 0.02");
  EXPECT_EQ(verdict.verdict, Verdict::kMissing);
  EXPECT_EQ(verdict.sentence, "the floor (k=f32 v=f32 in chunks of 64) is not measured");
}

TEST(Verdict, TakesTheWorstOfAConjunction) {
  Bench bench;
  const std::string pass = "mean kl(k4, 4096) > 0.001";
  const std::string not_met = "mean kl(k4, 4096) > 1";
  const std::string mistrusted = "mean kl(k4, 4096) >= mean kl(k4, 4096)";
  const std::string missing = "mean kl(id, 4096) > 0.001";
  const std::vector<std::pair<std::string, std::string>> ranks = {
      {missing, "MISSING"}, {mistrusted, "MISTRUSTED"}, {not_met, "NOT MET"}, {pass, "PASS"}};
  for (size_t first = 0; first < ranks.size(); ++first) {
    for (size_t second = 0; second < ranks.size(); ++second) {
      EXPECT_EQ(bench.Of(ranks[first].first + " and " + ranks[second].first), ranks[std::min(first, second)].second);
    }
  }
}

TEST(Verdict, JudgesAllBarsInOrder) {
  Bench bench;
  for (const char* claim : {"mean kl(k4, 4096) > 1", "mean kl(k4, 4096) < 1"}) {
    bench.spec_.bars.push_back({claim, claim, ParseClaim(claim).value()});
  }
  const std::vector<BarVerdict> verdicts = JudgeBars(bench.spec_, bench.cells_);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].verdict, Verdict::kNotMet);
  EXPECT_EQ(verdicts[1].verdict, Verdict::kPass);
  EXPECT_EQ(verdicts[1].name, "mean kl(k4, 4096) < 1");
}

TEST(MeanMetric, WeighsSpansByTheirTokens) {
  Bench bench;
  CellRecord& small = bench.At("k4", 0, 4096);
  CellRecord& large = bench.At("k4", 1, 4096);
  small.scored = 100;
  small.mean_kl = 1;
  small.nll = 1;
  small.p99_kl = 2;
  large.scored = 300;
  large.mean_kl = 2;
  large.nll = 3;
  large.p99_kl = 4;
  const std::vector<const CellRecord*> cells = {&small, &large};
  EXPECT_EQ(MeanMetric(cells, Metric::kKl), 1.75);
  EXPECT_EQ(MeanMetric(cells, Metric::kNll), 2.5);
  EXPECT_EQ(MeanMetric(cells, Metric::kPpl), std::exp(2.5));
  EXPECT_EQ(MeanMetric(cells, Metric::kP99), 3);
  EXPECT_TRUE(std::isnan(MeanMetric({}, Metric::kKl)));
}

}  // namespace
}  // namespace kvant
