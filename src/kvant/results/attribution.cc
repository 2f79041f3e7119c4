#include "kvant/results/attribution.h"

#include "kvant/results/cell_table.h"

namespace kvant {
namespace {

// Cells of a file may disagree, whoever wrote it.
bool SameTokens(const std::vector<const CellRecord*>& a, const std::vector<const CellRecord*>& b) {
  for (size_t span = 0; span < a.size(); ++span) {
    if (a[span]->tokens.kl.size() != b[span]->tokens.kl.size()) return false;
  }
  return true;
}

}  // namespace

std::vector<AttributionRow> Attribute(const ExperimentSpec& spec, std::span<const CellRecord> cells,
                                      const AttributionTriple& triple) {
  const CellTable table(spec, cells);
  std::vector<AttributionRow> rows;
  for (const uint64_t context : spec.contexts) {
    const std::vector<const CellRecord*> k_only = table.Ok(triple.k_only, context);
    const std::vector<const CellRecord*> v_only = table.Ok(triple.v_only, context);
    const std::vector<const CellRecord*> both = table.Ok(triple.both, context);
    const size_t spans = spec.spans.size();
    if (k_only.size() != spans || v_only.size() != spans || both.size() != spans) continue;
    if (!SameTokens(k_only, both) || !SameTokens(v_only, both)) continue;

    AttributionRow row;
    row.context = context;
    row.k_only = MeanMetric(k_only, Metric::kKl);
    row.v_only = MeanMetric(v_only, Metric::kKl);
    row.both = MeanMetric(both, Metric::kKl);
    row.interaction = row.both - row.k_only - row.v_only;
    std::vector<std::vector<double>> interactions(spans);
    std::vector<std::span<const double>> runs;
    for (size_t span = 0; span < spans; ++span) {
      const std::vector<double>& kl = both[span]->tokens.kl;
      for (size_t token = 0; token < kl.size(); ++token) {
        interactions[span].push_back(kl[token] - k_only[span]->tokens.kl[token] - v_only[span]->tokens.kl[token]);
      }
      runs.emplace_back(interactions[span]);
    }
    row.interaction_interval = BootstrapMean(runs, {.seed = spec.seed});
    rows.push_back(row);
  }
  return rows;
}

}  // namespace kvant
