// The cells of an experiment by arm, span and context, and the numbers that bars and tables take from them.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kvant/results/bar.h"
#include "kvant/results/cell.h"
#include "kvant/results/spec.h"

namespace kvant {

// The arm's value of one cell, or the reference's for ppl and nll with `of_reference`.
double MetricOf(const CellRecord& cell, Metric metric, bool of_reference = false);

// Over several spans: kl, top1 and nll are means over all tokens (for spans of equal length, the mean of the cells),
// ppl is exp of that mean nll, p99 is the mean of the spans' p99. No cells: NaN.
double MeanMetric(std::span<const CellRecord* const> cells, Metric metric, bool of_reference = false);

// Views into `cells`, which outlive the table. Arms are found by their policy text, so renamed arms keep their cells.
// Cells of other policies, chunks, modes, spans or contexts than the spec's are not in it.
class CellTable {
 public:
  CellTable(const ExperimentSpec& spec, std::span<const CellRecord> cells);

  // Null when it was not measured; the status may be kFailed. KVANT_CHECK: the arm is in the spec.
  const CellRecord* Find(const std::string& arm, const SpanSpec& span, uint64_t context) const;
  // The ok cells of an arm at a context, in the spec's order of spans.
  std::vector<const CellRecord*> Ok(const std::string& arm, uint64_t context) const;
  // The first ok cell of any arm there: all hold the same reference.
  const CellRecord* AnyOk(const SpanSpec& span, uint64_t context) const;

  // The ok floor cells (reference policy, second chunk) at a context, in the order of spans. Empty without [floor].
  std::vector<const CellRecord*> FloorCells(uint64_t context) const;
  // What the second chunk alone changes: the largest |value - value without change| of a metric over the floor cells
  // of the context, or of all contexts when this one has none. Empty without any.
  std::optional<double> Floor(Metric metric, uint64_t context) const;

 private:
  using Key = std::tuple<std::string, uint64_t, uint64_t, uint64_t>;  // policy, end, length, context

  const ExperimentSpec& spec_;
  std::map<Key, const CellRecord*> cells_;
  std::map<Key, const CellRecord*> floor_cells_;
};

}  // namespace kvant
