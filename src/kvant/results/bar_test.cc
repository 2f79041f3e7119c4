#include "kvant/results/bar.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;

std::string Canonical(const std::string& text) {
  const Result<Claim> claim = ParseClaim(text);
  return claim ? ToText(*claim) : "error: " + claim.error().message;
}

TEST(Claim, ReadsTheDocumentedForms) {
  const Claim claim = ParseClaim("kl(k4) > kl(v4) in >= 5 of 6 spans at 4096").value();
  ASSERT_EQ(claim.clauses.size(), 1u);
  const Clause& clause = claim.clauses[0];
  EXPECT_EQ(clause.left.arm, "k4");
  EXPECT_EQ(clause.right.arm, "v4");
  EXPECT_EQ(clause.left.context, 4096u);
  EXPECT_EQ(clause.right.context, 4096u);
  EXPECT_EQ(clause.comparison, Comparison::kGreater);
  ASSERT_TRUE(clause.count.has_value());
  EXPECT_EQ(clause.count->comparison, Comparison::kGreaterEqual);
  EXPECT_EQ(clause.count->hits, 5u);
  EXPECT_EQ(clause.count->total, 6u);
  EXPECT_FALSE(clause.count->pairs);

  EXPECT_EQ(Canonical("kl(k4) > kl(v4) in >= 5 of 6 spans at 4096"), "kl(k4, 4096) > kl(v4, 4096) in >= 5 of 6 spans");
  EXPECT_EQ(Canonical("kl(v4, 4096)>kl(v4,1024) in>=5 of 6 spans"), "kl(v4, 4096) > kl(v4, 1024) in >= 5 of 6 spans");
  EXPECT_EQ(Canonical("kl(k4) > kl(v4) in >= 15 of 18 pairs"), "kl(k4) > kl(v4) in >= 15 of 18 pairs");
  EXPECT_EQ(Canonical("mean kl(v4, 4096) >= 1.5*mean kl(v4, 1024)"), "mean kl(v4, 4096) >= 1.5 * mean kl(v4, 1024)");
  EXPECT_EQ(Canonical("mean top1(a, 1024) >= 0.95"), "mean top1(a, 1024) >= 0.95");
  EXPECT_EQ(Canonical("mean ppl(a) <= 1.01 * mean ppl(ref) at 1024"),
            "mean ppl(a, 1024) <= 1.01 * mean ppl(ref, 1024)");
  EXPECT_EQ(Canonical("0.01 > kl(k4.5-had+x) in > 3 of 6 spans at 256 and mean p99(b, 64) < 2"),
            "0.01 > kl(k4.5-had+x, 256) in > 3 of 6 spans and mean p99(b, 64) < 2");
}

// What ToText prints is read back to the same claim, for random claims over the whole grammar.
TEST(Claim, RoundTripsEveryForm) {
  const CounterRng rng(11);
  uint64_t draw = 0;
  const auto below = [&](uint64_t n) { return rng.Below(draw++, n); };
  for (int round = 0; round < 3000; ++round) {
    Claim claim;
    const uint64_t clauses = 1 + below(3);
    for (uint64_t index = 0; index < clauses; ++index) {
      Clause clause;
      const bool counted = below(2) == 0;
      const bool pairs = counted && below(2) == 0;
      const uint64_t number_side = below(4);  // 0: left, 1: right, else none
      clause.comparison = static_cast<Comparison>(below(4));
      for (ClaimSide* side : {&clause.left, &clause.right}) {
        if ((side == &clause.left && number_side == 0) || (side == &clause.right && number_side == 1)) {
          side->is_number = true;
          side->factor = std::ldexp(rng.Uniform(draw++), static_cast<int>(below(40)) - 20);
          continue;
        }
        side->factor = below(2) == 0 ? 1 : 0.001 + rng.Uniform(draw++);
        side->mean = !counted;
        const bool reference = below(4) == 0;
        side->metric = reference ? (below(2) == 0 ? Metric::kPpl : Metric::kNll) : static_cast<Metric>(below(5));
        side->arm = reference ? "ref" : (below(2) == 0 ? "k4" : "had-v3.19+x_Y");
        if (!pairs) side->context = 1 + below(100000);
      }
      if (counted) {
        const uint64_t total = 2 + below(20);
        clause.count = ClaimCount{static_cast<Comparison>(below(4)), 1 + below(total - 1), total, pairs};
      }
      claim.clauses.push_back(clause);
    }
    const std::string text = ToText(claim);
    const Result<Claim> parsed = ParseClaim(text);
    ASSERT_TRUE(parsed.has_value()) << text << ": " << parsed.error().message;
    EXPECT_EQ(*parsed, claim) << text;
  }
}

struct BadClaim {
  const char* text;
  const char* message;
};

TEST(Claim, ErrorsPointAtTheCharacter) {
  const std::vector<BadClaim> cases = {
      {"", "character 1: expected kl, p99, top1, ppl or nll, found the end"},
      {"   ", "character 4: expected kl"},
      {"kl", "character 3: expected '(' and an arm, found the end"},
      {"kl[k4]", "character 3: expected '(' and an arm, found '['"},
      {"foo(k4) > 1", "character 1: expected kl, p99, top1, ppl or nll, found 'foo'"},
      {"kl(4k) > 1", "character 4: expected the name of an arm, found '4k'"},
      {"kl(mean) > 1", "character 4: expected the name of an arm, found 'mean'"},
      {"kl(k4, x) > 1", "character 8: expected a context in tokens, found 'x'"},
      {"kl(k4, 1024 > 1", "character 13: expected ')', found '>'"},
      {"kl(k4 v4)", "character 7: expected ',' and a context, or ')', found 'v4'"},
      {"mean kl(k4, 1) = 1", "character 16: expected <, <=, > or >=, found '='"},
      {"mean kl(k4, 1) >", "character 17: expected kl"},
      {"mean kl(k4, 1) > 1 or", "character 20: expected 'and' or the end, found 'or'"},
      {"mean kl(k4, 1) > 1 and", "character 23: expected kl"},
      {"mean kl(k4, 1) > 1x", "character 19: expected a sign or a space after the number, found 'x'"},
      {"mean kl(k4, 1) > 1e999", "expected a number below"},
      {"mean kl(k4, 1) > -1", "character 18: expected kl"},
      {"mean kl(k4, 1) > inf", "character 18: expected kl"},
      {"mean kl(k4, 1) > nan", "character 18: expected kl"},
      {"0 * mean kl(k4, 1) > 1", "character 1: expected a factor above 0"},
      {"1 > 2", "character 1: two numbers are compared"},
      {"mean kl(ref, 1) > 1", "character 6: expected ppl or nll for 'ref'"},
      {"kl(k4, 1) > kl(v4, 1)", "write 'mean kl(k4, 1)'"},
      {"mean kl(k4) > 1", "'mean kl(k4)' has no context"},
      {"kl(k4) > kl(v4) in >= 5 of 6 spans", "'kl(k4)' has no context"},
      {"mean kl(k4) > 1 in >= 5 of 6 spans at 4", "drop 'mean'"},
      {"kl(k4, 4) > 1 in >= 5 of 6 pairs", "pairs go over all contexts"},
      {"kl(k4, 4) > 1 in >= 5 of 6 spans at 8", "character 34: 'at 8' changes nothing"},
      {"kl(k4) > 1 in 5 of 6 spans at 8", "character 15: expected <, <=, > or >= and a count, found '5'"},
      {"kl(k4) > 1 in >= 5 from 6 spans at 8", "character 20: expected 'of', found 'from'"},
      {"kl(k4) > 1 in >= 5 of 6 at 8", "character 25: expected 'spans' or 'pairs', found 'at'"},
      {"kl(k4) > 1 in >= 0 of 6 spans at 8", "character 15: '>= 0 of 6' holds whatever happens"},
      {"kl(k4) > 1 in > 6 of 6 spans at 8", "'> 6 of 6' cannot hold"},
      {"kl(k4) > 1 in >= 7 of 6 spans at 8", "'>= 7 of 6' cannot hold"},
      {"kl(k4) > 1 in <= 6 of 6 spans at 8", "holds whatever happens"},
      {"kl(k4) > 1 in < 0 of 6 spans at 8", "cannot hold"},
      {"kl(k4) > 1 in >= 99999999999999999999 of 6 spans at 8", "expected a count"},
      {"kl(\xc3\xa9) > 1", "character 4: expected the name of an arm, found '\xc3\xa9'"},
  };
  for (const BadClaim& bad : cases) {
    const Result<Claim> claim = ParseClaim(bad.text);
    ASSERT_FALSE(claim.has_value()) << bad.text;
    EXPECT_THAT(claim.error().message, HasSubstr(bad.message)) << bad.text;
  }
  EXPECT_THAT(ParseClaim(std::string(5000, 'a')).error().message, HasSubstr("5000 characters"));
}

// Every prefix, and random byte changes of every form: an answer or an error, never a crash (run under sanitizers).
TEST(Claim, SurvivesMutations) {
  const std::string seed = "kl(k4, 4096) >= 1.5 * kl(v4) in >= 5 of 6 spans at 256 and mean ppl(ref, 1) < 2e3";
  ASSERT_TRUE(ParseClaim(seed).has_value());
  const CounterRng rng(3);
  uint64_t accepted = 0;
  for (uint64_t round = 0; round < 20000; ++round) {
    std::string text = seed.substr(0, round < seed.size() ? round : seed.size());
    for (uint64_t change = 0; change < 1 + round % 3 && !text.empty(); ++change) {
      text[rng.Below(6 * round + change, text.size())] = static_cast<char>(rng.Below(6 * round + 3 + change, 256));
    }
    const Result<Claim> claim = ParseClaim(text);
    if (!claim) continue;
    ++accepted;
    EXPECT_EQ(ParseClaim(ToText(*claim)).value(), *claim) << text;
  }
  EXPECT_GT(accepted, 0u);  // some changes only touch a digit or a name
}

TEST(Claim, IsCheckedAgainstTheExperiment) {
  const ClaimScope scope{{"k4", "v4"}, {256, 1024}, 6};
  const auto check = [&](const char* text) {
    const Status status = CheckClaim(ParseClaim(text).value(), scope);
    return status ? std::string("ok") : status.error().message;
  };
  EXPECT_EQ(check("kl(k4) > kl(v4) in >= 5 of 6 spans at 1024"), "ok");
  EXPECT_EQ(check("kl(k4) > kl(v4) in >= 10 of 12 pairs"), "ok");
  EXPECT_EQ(check("mean ppl(k4, 256) < mean ppl(ref, 256)"), "ok");
  EXPECT_EQ(check("mean kl(k3, 256) < 1"), "unknown arm 'k3' (known: k4, v4)");
  EXPECT_EQ(check("mean kl(k4, 4096) < 1"), "context 4096 is not measured (contexts: 256, 1024)");
  EXPECT_EQ(check("kl(k4) > kl(v4) in >= 5 of 8 spans at 1024"),
            "counts of 8 spans but the experiment has 6; write 'of 6'");
  EXPECT_EQ(check("kl(k4) > kl(v4) in >= 3 of 4 spans at 1024"),
            "counts of 4 spans but the experiment has 6; write 'of 6'");
  EXPECT_EQ(check("kl(k4) > kl(v4) in >= 15 of 18 pairs"),
            "counts of 18 pairs but the experiment has 12; write 'of 12'");
}

TEST(ArmName, IsAnIdentifierAndNoWordOfTheGrammar) {
  for (const char* good : {"k4", "had-k4", "V3.19", "a+b_c", "inside", "reference"})
    EXPECT_TRUE(IsArmName(good)) << good;
  for (const char* bad : {"", "4k", "-a", "a b", "ref", "mean", "and", "spans", "a,b", "a(b", "\xc3\xa9"}) {
    EXPECT_FALSE(IsArmName(bad)) << bad;
  }
  EXPECT_TRUE(IsArmName(std::string(32, 'a')));
  EXPECT_FALSE(IsArmName(std::string(33, 'a')));
}

// A bound that every value meets, or none, is no bar.
TEST(CheckClaim, RefusesBoundsThatCannotFailOrHold) {
  const ClaimScope scope{{"a", "b"}, {32}, 3};
  for (const char* text : {"mean kl(a, 32) >= 0", "kl(a) >= 0 in >= 1 of 3 spans at 32", "mean p99(a, 32) < 0",
                           "mean top1(a, 32) <= 1", "top1(a) >= 0 in >= 3 of 3 spans at 32", "0.5 < mean ppl(a, 32)",
                           "2 * mean top1(a, 32) > 2", "mean nll(a, 32) >= 0"}) {
    const auto claim = ParseClaim(text);
    ASSERT_TRUE(claim.has_value()) << text << ": " << claim.error().message;
    const auto status = CheckClaim(*claim, scope);
    ASSERT_FALSE(status.has_value()) << text;
    EXPECT_NE(status.error().message.find("whatever is measured"), std::string::npos) << status.error().message;
  }
  for (const char* text :
       {"mean kl(a, 32) > 0", "mean top1(a, 32) >= 1", "mean ppl(a, 32) <= 1.5", "0.1 >= mean kl(a, 32)"}) {
    EXPECT_TRUE(CheckClaim(*ParseClaim(text), scope).has_value()) << text;
  }
}

TEST(IsArmName, KeepsTheNamesOfItsOwnRows) {
  for (const char* name : {"ref", "identity", "floor"}) EXPECT_FALSE(IsArmName(name)) << name;
}

}  // namespace
}  // namespace kvant
