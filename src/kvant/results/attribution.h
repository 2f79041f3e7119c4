// Where an arm's loss comes from: keys alone, values alone, both, and what only the two together cause.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvant/metrics/summary.h"
#include "kvant/results/cell.h"
#include "kvant/results/spec.h"

namespace kvant {

// Names of arms. Which arms belong together is the caller's knowledge: this layer does not read policies.
struct AttributionTriple {
  std::string k_only;
  std::string v_only;
  std::string both;
};

struct AttributionRow {
  uint64_t context = 0;
  double k_only = 0;  // mean KL over all scored tokens, nats
  double v_only = 0;
  double both = 0;
  double interaction = 0;                  // both - k_only - v_only: above 0 the two errors add to each other
  Interval interaction_interval = {0, 0};  // from the three KLs of each token, see BootstrapMean
};

// One row per context at which all spans of all three arms are ok and scored the same tokens; other contexts are left
// out. The arms are in the
// spec (checked).
std::vector<AttributionRow> Attribute(const ExperimentSpec& spec, std::span<const CellRecord> cells,
                                      const AttributionTriple& triple);

}  // namespace kvant
