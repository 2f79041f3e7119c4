// An experiment's results as text: for the terminal and, in Markdown, for pages such as the README.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvant/results/attribution.h"
#include "kvant/results/cell.h"
#include "kvant/results/spec.h"
#include "kvant/results/verdict.h"

namespace kvant {

// One row per arm: stored bits per value of K and V; per context the mean KL over all spans with its 95 % block
// bootstrap interval; at the longest context the p99 KL, top-1 agreement and perplexity against the reference's; the
// seconds of all its cells. With [floor] a last row holds the floor. An arm whose cells are not all there says
// so in place of numbers ("2 of 6 spans"). Plain ASCII, at most 120 columns: columns that do not fit continue in a
// second block with the arms repeated.
std::string ResultsTable(const ExperimentSpec& spec, std::span<const CellRecord> cells);

// What the columns mean: units, sample, interval; one or two lines to stand above the table.
std::string TableCaption(const ExperimentSpec& spec);

// A line per arm that lost values to saturation, and one when cells of one table were measured on SIMD targets whose
// floats differ. Empty without such cells.
std::string WarningsText(std::span<const CellRecord> cells);

// The same as one Markdown table of any width.
std::string ResultsMarkdown(const ExperimentSpec& spec, std::span<const CellRecord> cells);

// "K only, V only, both, interaction" per context and triple. Empty without rows.
std::string AttributionTable(std::string_view title, std::span<const AttributionRow> rows);

// Per bar: "PASS        name", the claim, and its sentence, wrapped to 120 columns. Ends with a count:
// "3 bars: 2 PASS, 1 NOT MET". Empty without bars.
std::string VerdictText(std::span<const BarVerdict> verdicts);
std::string VerdictMarkdown(std::span<const BarVerdict> verdicts);

}  // namespace kvant
