// Claims: the sentences of a bar, written before the run and parsed completely before anything is measured.
//
//   claim   := clause ("and" clause)*
//   clause  := side cmp side ["in" cmp N "of" M ("spans" | "pairs")] ["at" CONTEXT]
//   side    := [FACTOR "*"] ["mean"] metric "(" arm ["," CONTEXT] ")"  |  NUMBER
//   metric  := "kl" | "p99" | "top1" | "ppl" | "nll"       cmp := "<" | "<=" | ">" | ">="
//
//   kl(k4) > kl(v4) in >= 5 of 6 spans at 4096             one comparison per span, counted
//   kl(v4, 4096) > kl(v4, 1024) in >= 5 of 6 spans         the same span with two contexts
//   kl(k4) > kl(v4) in >= 15 of 18 pairs                   every span with every context
//   mean kl(v4, 4096) >= 1.5 * mean kl(v4, 1024)           means over all spans
//   mean ppl(v4, 1024) <= 1.01 * mean ppl(ref, 1024)       `ref` is the reference: only ppl and nll mean something
//   there
//
// Counted clauses take values of one span, so their sides have no `mean`; the others need it. `at` gives a context to
// every side that has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

enum class Metric : uint8_t { kKl, kP99, kTop1, kPpl, kNll };
enum class Comparison : uint8_t { kLess, kLessEqual, kGreater, kGreaterEqual };

std::string_view ToText(Metric metric);
std::string_view ToText(Comparison comparison);
bool Holds(Comparison comparison, double left, double right);  // false when either is NaN

// The name under which claims speak of the reference run; no arm may have it.
inline constexpr std::string_view kReferenceArm = "ref";

struct ClaimSide {
  bool is_number = false;
  double factor = 1;  // the number itself when is_number
  bool mean = false;
  Metric metric = Metric::kKl;
  std::string arm;
  std::optional<uint64_t> context;  // empty: every context (pairs)

  bool operator==(const ClaimSide&) const = default;
};

struct ClaimCount {
  Comparison comparison = Comparison::kGreaterEqual;
  uint64_t hits = 0;
  uint64_t total = 0;
  bool pairs = false;  // span x context pairs; else spans

  bool operator==(const ClaimCount&) const = default;
};

struct Clause {
  ClaimSide left;
  Comparison comparison = Comparison::kGreater;
  ClaimSide right;
  std::optional<ClaimCount> count;

  bool operator==(const Clause&) const = default;
};

struct Claim {
  std::vector<Clause> clauses;

  bool operator==(const Claim&) const = default;
};

// Errors name the character, counted from 1, and what may stand there. Refused as well: counts that every outcome or
// no outcome meets (">= 0 of 6", "> 6 of 6"), and metrics of `ref` that are constants.
Result<Claim> ParseClaim(std::string_view text);

// Canonical text: contexts inside the parentheses, one space around signs. ParseClaim(ToText(claim)) == claim.
std::string ToText(const ClaimSide& side);
std::string ToText(const Clause& clause);
std::string ToText(const Claim& claim);

// True for names that claims can speak of: a letter, then letters, digits, '_', '-', '.', '+'; at most 32 characters;
// none of the words of the grammar.
bool IsArmName(std::string_view name);

// What the experiment measures, for CheckClaim.
struct ClaimScope {
  std::vector<std::string> arms;
  std::vector<uint64_t> contexts;
  uint64_t spans = 0;
};

// Every arm exists, every context is measured, and "of M" is the number of spans (or pairs) that the experiment has.
Status CheckClaim(const Claim& claim, const ClaimScope& scope);

}  // namespace kvant
