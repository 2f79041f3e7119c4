#include "kvant/results/verdict.h"

#include <algorithm>
#include <cmath>

#include "kvant/results/cell_table.h"

namespace kvant {
namespace {

constexpr double kFloorFactor = 3;  // design 6: nothing below three times the floor is called a difference
constexpr size_t kMaxListed = 8;    // values, or cells, that one sentence lists

struct ClauseVerdict {
  Verdict verdict;
  std::string sentence;
};

// One side of one comparison: the cells behind it (one for a span, all spans for a mean) and its value.
struct SideValue {
  std::vector<const CellRecord*> cells;
  uint64_t context = 0;
  double raw = 0;     // without the factor
  double scaled = 0;  // with it
};

// One comparison: the spans it covers and the context of the sides that do not fix their own.
struct Point {
  std::vector<SpanSpec> spans;
  uint64_t context = 0;
};

bool IsReference(const ClaimSide& side) { return !side.is_number && side.arm == kReferenceArm; }
bool IsArm(const ClaimSide& side) { return !side.is_number && side.arm != kReferenceArm; }
bool IsDivergence(Metric metric) { return metric == Metric::kKl || metric == Metric::kP99; }

class ClauseJudge {
 public:
  ClauseJudge(const ExperimentSpec& spec, const CellTable& table, const Clause& clause)
      : spec_(spec), table_(table), clause_(clause) {}

  ClauseVerdict Judge() {
    const std::vector<Point> points = Points();
    std::vector<std::pair<SideValue, SideValue>> values;
    for (const Point& point : points) {
      values.emplace_back(Value(clause_.left, clause_.right, point), Value(clause_.right, clause_.left, point));
    }
    if (!missing_.empty()) return {Verdict::kMissing, MissingSentence()};
    for (const auto& [left, right] : values) {
      if (std::string doubt = Doubt(left, right); !doubt.empty()) return {Verdict::kMistrusted, doubt};
    }
    return clause_.count ? JudgeCount(points, values) : JudgeMean(values[0].first, values[0].second);
  }

 private:
  std::vector<Point> Points() const {
    if (!clause_.count) return {{spec_.spans, 0}};
    std::vector<Point> points;
    const std::vector<uint64_t> contexts = clause_.count->pairs ? spec_.contexts : std::vector<uint64_t>{0};
    for (const uint64_t context : contexts) {
      for (const SpanSpec& span : spec_.spans) points.push_back({{span}, context});
    }
    return points;
  }

  // Collects what is missing into missing_.
  SideValue Value(const ClaimSide& side, const ClaimSide& other, const Point& point) {
    SideValue value;
    if (side.is_number) {
      value.raw = value.scaled = side.factor;
      return value;
    }
    value.context = side.context.value_or(point.context);
    for (const SpanSpec& span : point.spans) {
      const CellRecord* cell =
          IsArm(side) ? table_.Find(side.arm, span, value.context) : ReferenceCell(other, span, value);
      if (cell == nullptr) {
        AddMissing(fmt::format("{} at context {} in the span that ends at {} is not measured", side.arm, value.context,
                               span.end));
      } else if (cell->status == CellStatus::kFailed) {
        AddMissing(fmt::format("{} at context {} in the span that ends at {} failed: {}", side.arm, value.context,
                               span.end, cell->reason));
      } else {
        value.cells.push_back(cell);
      }
    }
    if (spec_.floor_second_chunk && !table_.Floor(side.metric, value.context)) {
      AddMissing(
          fmt::format("the floor ({} in chunks of {}) is not measured", spec_.reference, *spec_.floor_second_chunk));
    }
    value.raw = MeanMetric(value.cells, side.metric, IsReference(side));
    value.scaled = side.factor * value.raw;
    return value;
  }

  // Every cell of a span and context holds the reference's loss; the other side's own cell is the natural one.
  const CellRecord* ReferenceCell(const ClaimSide& other, const SpanSpec& span, const SideValue& value) const {
    if (IsArm(other)) {
      const CellRecord* cell = table_.Find(other.arm, span, value.context);
      if (cell != nullptr && cell->status == CellStatus::kOk) return cell;
    }
    return table_.AnyOk(span, value.context);
  }

  void AddMissing(std::string what) {
    if (std::find(missing_.begin(), missing_.end(), what) == missing_.end()) missing_.push_back(std::move(what));
  }

  std::string MissingSentence() const {
    const size_t listed = std::min(missing_.size(), kMaxListed);
    std::string sentence =
        fmt::format("{}", fmt::join(missing_.begin(), missing_.begin() + static_cast<ptrdiff_t>(listed), "; "));
    if (missing_.size() > listed) sentence += fmt::format("; and {} more", missing_.size() - listed);
    return sentence;
  }

  // Why the comparison could not have failed; empty when it could.
  std::string Doubt(const SideValue& left, const SideValue& right) const {
    const ClaimSide& a = clause_.left;
    const ClaimSide& b = clause_.right;
    const std::string names = fmt::format("{} and {}", ToText(a), ToText(b));
    if (a.is_number || b.is_number || IsReference(a) != IsReference(b)) return DoubtOfArm(left, right);
    const bool same_metric = a.metric == b.metric;
    if (same_metric && a.arm == b.arm && left.context == right.context) {
      return fmt::format("{} are the same cells, so the comparison could not have failed", names);
    }
    if (IsReference(a)) return "";
    if (IsDivergence(a.metric) && IsDivergence(b.metric) && left.raw == 0 && right.raw == 0) {
      return fmt::format("{} are both exactly 0: neither arm changed anything", names);
    }
    for (const auto& [side, value] : {std::pair(&a, &left), std::pair(&b, &right)}) {
      if (IsDivergence(side->metric) && value->raw == 0) {
        return fmt::format("{} is exactly 0: the arm changed nothing, so any other arm is worse", ToText(*side));
      }
    }
    if (a.arm == b.arm && left.context == right.context) return "";  // two metrics of one cell
    for (size_t index = 0; index < left.cells.size(); ++index) {
      const CellRecord& x = *left.cells[index];
      const CellRecord& y = *right.cells[index];
      if (!x.cache_hash.empty() && x.cache_hash == y.cache_hash) {
        return fmt::format("{} stored the same bytes (cache hash {}) in the span that ends at {}", names,
                           x.cache_hash.substr(0, 12), x.key.span_end);
      }
      if (x.mean_kl == y.mean_kl && x.nll == y.nll) {
        return fmt::format("{} are identical to the last bit in the span that ends at {}", names, x.key.span_end);
      }
    }
    return "";
  }

  // One side is an arm, the other a number or the reference.
  std::string DoubtOfArm(const SideValue& left, const SideValue& right) const {
    const bool left_is_arm = IsArm(clause_.left);
    if (!left_is_arm && !IsArm(clause_.right)) return "";  // the reference and a number
    const ClaimSide& side = left_is_arm ? clause_.left : clause_.right;
    for (const CellRecord* cell : (left_is_arm ? left : right).cells) {
      if (cell->mean_kl == 0) {
        return fmt::format("{} has KL exactly 0 in the span that ends at {}: the arm changed nothing", ToText(side),
                           cell->key.span_end);
      }
    }
    return "";
  }

  // The smallest difference that counts; 0 without a floor.
  double Noise(const SideValue& left, const SideValue& right) const {
    double noise = 0;
    for (const auto& [side, value] : {std::pair(&clause_.left, &left), std::pair(&clause_.right, &right)}) {
      if (side->is_number) continue;
      noise = std::max(noise, side->factor * table_.Floor(side->metric, value->context).value_or(0.0));
    }
    return kFloorFactor * noise;
  }

  bool Undecided(const SideValue& left, const SideValue& right) const {
    return std::abs(left.scaled - right.scaled) < Noise(left, right);
  }

  ClauseVerdict JudgeMean(const SideValue& left, const SideValue& right) const {
    std::string sentence = fmt::format("{} = {:.4g}", ToText(clause_.left), left.scaled);
    if (clause_.left.is_number) sentence = ToText(clause_.left);
    const bool holds = Holds(clause_.comparison, left.scaled, right.scaled);
    sentence += fmt::format(" {} {}", holds ? "is" : "is not", ToText(clause_.comparison));
    sentence += clause_.right.is_number ? fmt::format(" {}", ToText(clause_.right))
                                        : fmt::format(" {} = {:.4g}", ToText(clause_.right), right.scaled);
    if (!clause_.left.is_number && !clause_.right.is_number && right.raw != 0) {
      sentence += fmt::format("; the means stand {:.3f} to 1", left.raw / right.raw);
    }
    if (Undecided(left, right)) {
      return {Verdict::kMistrusted,
              fmt::format("{}, but the difference of {:.2g} is below three times the floor, {:.2g}", sentence,
                          std::abs(left.scaled - right.scaled), Noise(left, right))};
    }
    return {holds ? Verdict::kPass : Verdict::kNotMet, sentence};
  }

  ClauseVerdict JudgeCount(const std::vector<Point>& points,
                           const std::vector<std::pair<SideValue, SideValue>>& values) const {
    uint64_t hits = 0;
    uint64_t undecided = 0;
    std::vector<std::string> shown;
    for (size_t index = 0; index < points.size(); ++index) {
      const auto& [left, right] = values[index];
      const bool holds = Holds(clause_.comparison, left.scaled, right.scaled);
      const bool unclear = Undecided(left, right);
      undecided += unclear ? 1 : 0;
      hits += holds && !unclear ? 1 : 0;
      if (!clause_.count->pairs || !holds || unclear)
        shown.push_back(Shown(points[index], left, right, holds, unclear));
    }
    const ClaimCount& count = *clause_.count;
    const double needed = static_cast<double>(count.hits);
    const bool if_none = Holds(count.comparison, static_cast<double>(hits), needed);
    const bool if_all = Holds(count.comparison, static_cast<double>(hits + undecided), needed);

    std::string sentence = fmt::format("{} {} {} in {} of {} {}, needed {} {}", ToText(clause_.left),
                                       ToText(clause_.comparison), ToText(clause_.right), hits, count.total,
                                       count.pairs ? "pairs" : "spans", ToText(count.comparison), count.hits);
    if (undecided > 0) sentence += fmt::format("; {} differ by less than three times the floor", undecided);
    if (!shown.empty()) sentence += (count.pairs ? "; not in " : ": ") + Listed(shown);
    if (if_none != if_all) return {Verdict::kMistrusted, sentence};
    return {if_all ? Verdict::kPass : Verdict::kNotMet, sentence};
  }

  // Spans: "0.0243 > 0.0074"; what does not hold reads "0.0050 !> 0.0053". Pairs name their place.
  std::string Shown(const Point& point, const SideValue& left, const SideValue& right, bool holds, bool unclear) const {
    const std::string text =
        fmt::format("{:.4g} {} {:.4g}", left.scaled,
                    unclear ? "~" : fmt::format("{}{}", holds ? "" : "!", ToText(clause_.comparison)), right.scaled);
    if (!clause_.count->pairs) return text;
    return fmt::format("span {} context {} ({})", point.spans[0].end, point.context, text);
  }

  static std::string Listed(const std::vector<std::string>& shown) {
    const size_t listed = std::min(shown.size(), kMaxListed);
    std::string text =
        fmt::format("{}", fmt::join(shown.begin(), shown.begin() + static_cast<ptrdiff_t>(listed), ", "));
    if (shown.size() > listed) text += fmt::format(" and {} more", shown.size() - listed);
    return text;
  }

  const ExperimentSpec& spec_;
  const CellTable& table_;
  const Clause& clause_;
  std::vector<std::string> missing_;
};

// The order in which one clause's verdict rules a conjunction.
int Rank(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMissing:
      return 0;
    case Verdict::kMistrusted:
      return 1;
    case Verdict::kNotMet:
      return 2;
    case Verdict::kPass:
      return 3;
  }
  return 0;
}

BarVerdict JudgeInTable(const ExperimentSpec& spec, const BarSpec& bar, const CellTable& table) {
  std::vector<ClauseVerdict> clauses;
  for (const Clause& clause : bar.claim.clauses) clauses.push_back(ClauseJudge(spec, table, clause).Judge());
  Verdict verdict = Verdict::kPass;
  for (const ClauseVerdict& clause : clauses) {
    if (Rank(clause.verdict) < Rank(verdict)) verdict = clause.verdict;
  }
  BarVerdict result{bar.name, bar.claim_text, verdict, ""};
  for (const ClauseVerdict& clause : clauses) {
    if (clause.verdict != verdict) continue;
    if (!result.sentence.empty()) result.sentence += "; and ";
    result.sentence += clause.sentence;
  }
  return result;
}

}  // namespace

std::string_view ToText(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kNotMet:
      return "NOT MET";
    case Verdict::kMissing:
      return "MISSING";
    case Verdict::kMistrusted:
      return "MISTRUSTED";
  }
  return "?";
}

BarVerdict JudgeBar(const ExperimentSpec& spec, const BarSpec& bar, std::span<const CellRecord> cells) {
  return JudgeInTable(spec, bar, CellTable(spec, cells));
}

std::vector<BarVerdict> JudgeBars(const ExperimentSpec& spec, std::span<const CellRecord> cells) {
  const CellTable table(spec, cells);
  std::vector<BarVerdict> verdicts;
  for (const BarSpec& bar : spec.bars) verdicts.push_back(JudgeInTable(spec, bar, table));
  return verdicts;
}

}  // namespace kvant
