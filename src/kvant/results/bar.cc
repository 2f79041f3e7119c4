#include "kvant/results/bar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <cmath>

namespace kvant {
namespace {

constexpr std::array<std::pair<std::string_view, Metric>, 5> kMetrics = {{{"kl", Metric::kKl},
                                                                          {"p99", Metric::kP99},
                                                                          {"top1", Metric::kTop1},
                                                                          {"ppl", Metric::kPpl},
                                                                          {"nll", Metric::kNll}}};
constexpr std::array<std::pair<std::string_view, Comparison>, 4> kComparisons = {{{"<=", Comparison::kLessEqual},
                                                                                  {">=", Comparison::kGreaterEqual},
                                                                                  {"<", Comparison::kLess},
                                                                                  {">", Comparison::kGreater}}};
constexpr std::array<std::string_view, 7> kWords = {"and", "in", "of", "at", "spans", "pairs", "mean"};
constexpr size_t kMaxClaimLength = 4096;
constexpr size_t kMaxNameLength = 32;

// Locale-independent, unlike <cctype>.
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsNameChar(char c) { return IsLetter(c) || IsDigit(c) || c == '_' || c == '-' || c == '.' || c == '+'; }

// Recursive descent without recursion: the grammar has no nesting.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Claim> Parse() {
    Claim claim;
    do {
      KVANT_ASSIGN_OR_RETURN(Clause clause, ParseClause());
      claim.clauses.push_back(std::move(clause));
    } while (TakeWord("and"));
    if (!AtEnd()) return Expected("'and' or the end");
    return claim;
  }

 private:
  tl::unexpected<Error> Expected(std::string_view what) {
    SkipSpace();
    if (at_ == text_.size()) return Fail("character {}: expected {}, found the end of the claim", at_ + 1, what);
    size_t end = at_ + 1;
    if (IsNameChar(text_[at_])) {
      while (end < text_.size() && IsNameChar(text_[end])) ++end;
    } else {
      while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xc0) == 0x80) ++end;  // whole UTF-8 char
    }
    return Fail("character {}: expected {}, found '{}'", at_ + 1, what, text_.substr(at_, end - at_));
  }

  void SkipSpace() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }

  bool AtEnd() {
    SkipSpace();
    return at_ == text_.size();
  }

  char Peek() { return AtEnd() ? '\0' : text_[at_]; }

  bool TakeChar(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }

  std::string_view PeekName() {
    SkipSpace();
    size_t end = at_;
    if (end < text_.size() && IsLetter(text_[end])) {
      while (end < text_.size() && IsNameChar(text_[end])) ++end;
    }
    return text_.substr(at_, end - at_);
  }

  bool TakeWord(std::string_view word) {
    if (PeekName() != word) return false;
    at_ += word.size();
    return true;
  }

  std::optional<Comparison> TakeComparison() {
    SkipSpace();
    for (const auto& [sign, comparison] : kComparisons) {
      if (text_.substr(at_, sign.size()) == sign) {
        at_ += sign.size();
        return comparison;
      }
    }
    return std::nullopt;
  }

  // from_chars would take "inf" and "-1"; numbers here start with a digit or a point.
  Result<double> TakeNumber() {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || !std::isfinite(value)) return Expected("a number below 1.8e308");
    at_ += static_cast<size_t>(end - begin);
    if (at_ < text_.size() && IsNameChar(text_[at_])) return Expected("a sign or a space after the number");
    return value;
  }

  Result<uint64_t> TakeInteger(std::string_view what) {
    SkipSpace();
    uint64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    const bool ends = end == text_.data() + text_.size() || !IsNameChar(*end);
    if (error != std::errc() || !ends || value > UINT32_MAX) return Expected(what);
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  Result<ClaimSide> ParseSide() {
    ClaimSide side;
    if (IsDigit(Peek()) || Peek() == '.') {
      const size_t number_at = at_;
      KVANT_ASSIGN_OR_RETURN(side.factor, TakeNumber());
      if (!TakeChar('*')) {
        side.is_number = true;
        return side;
      }
      if (side.factor == 0) {
        at_ = number_at;
        return Expected("a factor above 0");
      }
    }
    side.mean = TakeWord("mean");
    const std::string_view name = PeekName();
    const auto metric = std::find_if(kMetrics.begin(), kMetrics.end(), [&](const auto& m) { return m.first == name; });
    if (metric == kMetrics.end()) return Expected("kl, p99, top1, ppl or nll");
    const size_t metric_at = at_;
    side.metric = metric->second;
    at_ += name.size();
    if (!TakeChar('(')) return Expected("'(' and an arm");
    side.arm = std::string(PeekName());
    if (side.arm != kReferenceArm && !IsArmName(side.arm)) return Expected("the name of an arm");
    at_ += side.arm.size();
    if (side.arm == kReferenceArm && side.metric != Metric::kPpl && side.metric != Metric::kNll) {
      at_ = metric_at;
      return Expected("ppl or nll for 'ref', whose divergence from itself is nothing");
    }
    if (TakeChar(',')) {
      KVANT_ASSIGN_OR_RETURN(side.context, TakeInteger("a context in tokens"));
    }
    if (!TakeChar(')')) return Expected(side.context ? "')'" : "',' and a context, or ')'");
    return side;
  }

  Result<Clause> ParseClause() {
    Clause clause;
    const size_t start = SkippedTo();
    KVANT_ASSIGN_OR_RETURN(clause.left, ParseSide());
    const std::optional<Comparison> comparison = TakeComparison();
    if (!comparison) return Expected("<, <=, > or >=");
    clause.comparison = *comparison;
    KVANT_ASSIGN_OR_RETURN(clause.right, ParseSide());
    if (TakeWord("in")) {
      KVANT_ASSIGN_OR_RETURN(clause.count, ParseCount());
    }
    std::optional<uint64_t> at;
    const size_t at_place = SkippedTo();
    if (TakeWord("at")) {
      KVANT_ASSIGN_OR_RETURN(at, TakeInteger("a context in tokens"));
    }
    KVANT_RETURN_IF_ERROR(Settle(&clause, at, start, at_place));
    return clause;
  }

  size_t SkippedTo() {
    SkipSpace();
    return at_;
  }

  Result<ClaimCount> ParseCount() {
    ClaimCount count;
    const size_t start = SkippedTo();
    const std::optional<Comparison> comparison = TakeComparison();
    if (!comparison) return Expected("<, <=, > or >= and a count");
    count.comparison = *comparison;
    KVANT_ASSIGN_OR_RETURN(count.hits, TakeInteger("a count"));
    if (!TakeWord("of")) return Expected("'of'");
    KVANT_ASSIGN_OR_RETURN(count.total, TakeInteger("a count"));
    if (TakeWord("pairs")) {
      count.pairs = true;
    } else if (!TakeWord("spans")) {
      return Expected("'spans' or 'pairs'");
    }
    // Counts are monotonous, so the two ends decide whether both outcomes exist.
    const double hits = static_cast<double>(count.hits);
    const bool at_none = Holds(count.comparison, 0, hits);
    const bool at_all = Holds(count.comparison, static_cast<double>(count.total), hits);
    if (at_none == at_all) {
      return Fail("character {}: '{} {} of {}' {}; write a count that can be met and missed", start + 1,
                  ToText(count.comparison), count.hits, count.total,
                  at_none ? "holds whatever happens" : "cannot hold");
    }
    return count;
  }

  // Gives `at` to the sides without a context and checks that both sides fit the kind of clause.
  Status Settle(Clause* clause, std::optional<uint64_t> at, size_t start, size_t at_place) {
    if (clause->left.is_number && clause->right.is_number) {
      return Fail("character {}: two numbers are compared; name a metric of an arm on one side", start + 1);
    }
    bool at_used = false;
    for (ClaimSide* side : {&clause->left, &clause->right}) {
      if (side->is_number) continue;
      if (at && !side->context) {
        side->context = at;
        at_used = true;
      }
      const std::string text = ToText(*side);
      if (clause->count && side->mean) {
        return Fail("character {}: '{}' in a clause that counts; drop 'mean', each span is compared by itself",
                    start + 1, text);
      }
      if (!clause->count && !side->mean) {
        return Fail("character {}: '{}' is many values; write 'mean {}' or count with 'in >= N of M spans'", start + 1,
                    text, text);
      }
      if (clause->count && clause->count->pairs && side->context) {
        return Fail("character {}: '{}' fixes a context but pairs go over all contexts; drop it or count spans",
                    start + 1, text);
      }
      if (!(clause->count && clause->count->pairs) && !side->context) {
        return Fail("character {}: '{}' has no context; add 'at TOKENS' to the clause or ', TOKENS' to the arm",
                    start + 1, text);
      }
    }
    if (at && !at_used) {
      return Fail("character {}: 'at {}' changes nothing, both sides have their context; drop it", at_place + 1, *at);
    }
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::string_view ToText(Metric metric) {
  for (const auto& [name, value] : kMetrics) {
    if (value == metric) return name;
  }
  return "?";
}

std::string_view ToText(Comparison comparison) {
  for (const auto& [sign, value] : kComparisons) {
    if (value == comparison) return sign;
  }
  return "?";
}

bool Holds(Comparison comparison, double left, double right) {
  switch (comparison) {
    case Comparison::kLess:
      return left < right;
    case Comparison::kLessEqual:
      return left <= right;
    case Comparison::kGreater:
      return left > right;
    case Comparison::kGreaterEqual:
      return left >= right;
  }
  return false;
}

Result<Claim> ParseClaim(std::string_view text) {
  if (text.size() > kMaxClaimLength) {
    return Fail("the claim has {} characters; at most {} are read", text.size(), kMaxClaimLength);
  }
  return Parser(text).Parse();
}

std::string ToText(const ClaimSide& side) {
  if (side.is_number) return fmt::format("{}", side.factor);
  const std::string factor = side.factor == 1 ? "" : fmt::format("{} * ", side.factor);
  const std::string context = side.context ? fmt::format(", {}", *side.context) : "";
  return fmt::format("{}{}{}({}{})", factor, side.mean ? "mean " : "", ToText(side.metric), side.arm, context);
}

std::string ToText(const Clause& clause) {
  std::string text = fmt::format("{} {} {}", ToText(clause.left), ToText(clause.comparison), ToText(clause.right));
  if (clause.count) {
    text += fmt::format(" in {} {} of {} {}", ToText(clause.count->comparison), clause.count->hits, clause.count->total,
                        clause.count->pairs ? "pairs" : "spans");
  }
  return text;
}

std::string ToText(const Claim& claim) {
  std::string text;
  for (const Clause& clause : claim.clauses) {
    if (!text.empty()) text += " and ";
    text += ToText(clause);
  }
  return text;
}

bool IsArmName(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameLength || !IsLetter(name[0]) || name == kReferenceArm ||
      name == "identity" || name == "floor") {
    return false;
  }
  if (!std::all_of(name.begin(), name.end(), IsNameChar)) return false;
  return std::find(kWords.begin(), kWords.end(), name) == kWords.end();
}

namespace {

// The values that a metric can have, whatever happens.
std::pair<double, double> RangeOf(Metric metric) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (metric) {
    case Metric::kTop1:
      return {0, 1};
    case Metric::kPpl:
      return {1, kInfinity};
    case Metric::kKl:
    case Metric::kP99:
    case Metric::kNll:
      return {0, kInfinity};
  }
  return {0, kInfinity};
}

// A comparison with a number that every value of the metric meets, or none, could not have failed or held.
Status CheckBound(const Clause& clause) {
  if (clause.left.is_number == clause.right.is_number) return {};
  const ClaimSide& side = clause.left.is_number ? clause.right : clause.left;
  const double bound = (clause.left.is_number ? clause.left : clause.right).factor;
  const auto [low, high] = RangeOf(side.metric);
  const auto holds = [&](double value) {
    return clause.left.is_number ? Holds(clause.comparison, bound, side.factor * value)
                                 : Holds(clause.comparison, side.factor * value, bound);
  };
  // Both ends: the comparison is monotone in the value.
  if (holds(low) == holds(high)) {
    return Fail("'{}' {}, whatever is measured: {} is from {} to {}", ToText(clause),
                holds(low) ? "always holds" : "never holds", ToText(side.metric), low, high);
  }
  return {};
}

}  // namespace

Status CheckClaim(const Claim& claim, const ClaimScope& scope) {
  for (const Clause& clause : claim.clauses) {
    KVANT_RETURN_IF_ERROR(CheckBound(clause));
    for (const ClaimSide* side : {&clause.left, &clause.right}) {
      if (side->is_number) continue;
      const bool known = std::find(scope.arms.begin(), scope.arms.end(), side->arm) != scope.arms.end();
      if (!known && side->arm != kReferenceArm) {
        return Fail("unknown arm '{}' (known: {})", side->arm, fmt::join(scope.arms, ", "));
      }
      if (side->context &&
          std::find(scope.contexts.begin(), scope.contexts.end(), *side->context) == scope.contexts.end()) {
        return Fail("context {} is not measured (contexts: {})", *side->context, fmt::join(scope.contexts, ", "));
      }
    }
    if (!clause.count) continue;
    const uint64_t exist = clause.count->pairs ? scope.spans * scope.contexts.size() : scope.spans;
    if (clause.count->total != exist) {
      return Fail("counts of {} {} but the experiment has {}; write 'of {}'", clause.count->total,
                  clause.count->pairs ? "pairs" : "spans", exist, exist);
    }
  }
  return {};
}

}  // namespace kvant
