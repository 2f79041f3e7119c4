#include "kvant/results/cell_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvant/base/check.h"
#include "kvant/metrics/summary.h"

namespace kvant {
namespace {

// Distance from a run that changed nothing.
double Deviation(const CellRecord& cell, Metric metric) {
  switch (metric) {
    case Metric::kKl:
    case Metric::kP99:
      return MetricOf(cell, metric);
    case Metric::kTop1:
      return 1.0 - cell.top1;
    case Metric::kPpl:
    case Metric::kNll:
      return std::abs(MetricOf(cell, metric) - MetricOf(cell, metric, true));
  }
  return 0;
}

}  // namespace

double MetricOf(const CellRecord& cell, Metric metric, bool of_reference) {
  switch (metric) {
    case Metric::kKl:
      return cell.mean_kl;
    case Metric::kP99:
      return cell.p99_kl;
    case Metric::kTop1:
      return cell.top1;
    case Metric::kPpl:
      return of_reference ? cell.ref_ppl : cell.ppl;
    case Metric::kNll:
      return of_reference ? cell.ref_nll : cell.nll;
  }
  return 0;
}

double MeanMetric(std::span<const CellRecord* const> cells, Metric metric, bool of_reference) {
  if (cells.empty()) return std::numeric_limits<double>::quiet_NaN();
  const bool per_cell = metric == Metric::kP99;
  const Metric summed = metric == Metric::kPpl ? Metric::kNll : metric;
  std::vector<double> terms;
  double weight = 0;
  for (const CellRecord* cell : cells) {
    const double tokens = per_cell ? 1.0 : static_cast<double>(cell->scored);
    terms.push_back(tokens * MetricOf(*cell, summed, of_reference));
    weight += tokens;
  }
  const double mean = Sum(terms) / weight;
  return metric == Metric::kPpl ? std::exp(mean) : mean;
}

CellTable::CellTable(const ExperimentSpec& spec, std::span<const CellRecord> cells) : spec_(spec) {
  for (const CellRecord& cell : cells) {
    if (cell.key.mode != "prefill") continue;
    const Key key{cell.key.policy, cell.key.span_end, cell.key.span_length, cell.key.context};
    if (cell.key.chunk == spec.chunk) {
      cells_.emplace(key, &cell);
    } else if (cell.key.chunk == spec.floor_second_chunk && cell.key.policy == spec.reference) {
      floor_cells_.emplace(key, &cell);
    }
  }
}

const CellRecord* CellTable::Find(const std::string& arm, const SpanSpec& span, uint64_t context) const {
  const auto spec = std::find_if(spec_.arms.begin(), spec_.arms.end(), [&](const ArmSpec& a) { return a.name == arm; });
  KVANT_CHECK(spec != spec_.arms.end());
  const auto cell = cells_.find(Key{spec->policy, span.end, span.length, context});
  return cell == cells_.end() ? nullptr : cell->second;
}

std::vector<const CellRecord*> CellTable::Ok(const std::string& arm, uint64_t context) const {
  std::vector<const CellRecord*> ok;
  for (const SpanSpec& span : spec_.spans) {
    const CellRecord* cell = Find(arm, span, context);
    if (cell != nullptr && cell->status == CellStatus::kOk) ok.push_back(cell);
  }
  return ok;
}

const CellRecord* CellTable::AnyOk(const SpanSpec& span, uint64_t context) const {
  for (const ArmSpec& arm : spec_.arms) {
    const CellRecord* cell = Find(arm.name, span, context);
    if (cell != nullptr && cell->status == CellStatus::kOk) return cell;
  }
  return nullptr;
}

std::vector<const CellRecord*> CellTable::FloorCells(uint64_t context) const {
  std::vector<const CellRecord*> found;
  for (const SpanSpec& span : spec_.spans) {
    const auto cell = floor_cells_.find(Key{spec_.reference, span.end, span.length, context});
    if (cell != floor_cells_.end() && cell->second->status == CellStatus::kOk) found.push_back(cell->second);
  }
  return found;
}

std::optional<double> CellTable::Floor(Metric metric, uint64_t context) const {
  std::vector<const CellRecord*> cells = FloorCells(context);
  if (cells.empty()) {
    for (const uint64_t other : spec_.contexts) {
      const std::vector<const CellRecord*> more = FloorCells(other);
      cells.insert(cells.end(), more.begin(), more.end());
    }
  }
  std::optional<double> floor;
  for (const CellRecord* cell : cells) floor = std::max(floor.value_or(0.0), Deviation(*cell, metric));
  return floor;
}

}  // namespace kvant
