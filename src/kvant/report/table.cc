#include "kvant/report/table.h"

#include <algorithm>
#include <cmath>

#include "kvant/metrics/summary.h"
#include "kvant/results/cell_table.h"

namespace kvant {
namespace {

constexpr size_t kWidth = 120;
constexpr std::string_view kNothing = "-";

struct Column {
  std::string head;
  std::vector<std::string> rows;
};

// Three significant digits, since intervals are rarely narrower: 0.112, 0.00741, 4.12e-05.
std::string Short(double value) {
  if (std::isnan(value)) return std::string(kNothing);
  if (value == 0) return "0";
  return fmt::format("{:#.3g}", value);
}

std::string WithInterval(double value, const Interval& interval) {
  if (std::isnan(interval.low)) return Short(value);
  return fmt::format("{} [{}, {}]", Short(value), Short(interval.low), Short(interval.high));
}

std::string Fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string(kNothing);
}

Interval KlInterval(const ExperimentSpec& spec, std::span<const CellRecord* const> cells) {
  std::vector<std::span<const double>> runs;
  for (const CellRecord* cell : cells) runs.emplace_back(cell->tokens.kl);
  return BootstrapMean(runs, {.seed = spec.seed});
}

// Everything that the table needs to know about one row at one context.
std::vector<const CellRecord*> CellsAt(const CellTable& table, const ArmSpec* arm, uint64_t context) {
  return arm == nullptr ? table.FloorCells(context) : table.Ok(arm->name, context);
}

// The floor may be measured on fewer spans; an arm may not.
std::string Gap(const ExperimentSpec& spec, const ArmSpec* arm, size_t cells) {
  if (cells == 0) return arm == nullptr ? std::string(kNothing) : "not measured";
  if (arm == nullptr || cells == spec.spans.size()) return "";
  return fmt::format("{} of {} spans", cells, spec.spans.size());
}

double BitsPerValue(std::span<const CellRecord* const> cells, bool of_keys) {
  uint64_t bytes = 0;
  uint64_t values = 0;
  for (const CellRecord* cell : cells) {
    bytes += of_keys ? cell->bytes_k : cell->bytes_v;
    values += of_keys ? cell->values_k : cell->values_v;
  }
  return values == 0 ? std::nan("") : 8.0 * static_cast<double>(bytes) / static_cast<double>(values);
}

std::vector<Column> Columns(const ExperimentSpec& spec, std::span<const CellRecord> cells) {
  const CellTable table(spec, cells);
  std::vector<const ArmSpec*> rows;
  for (const ArmSpec& arm : spec.arms) rows.push_back(&arm);
  if (spec.floor_second_chunk) rows.push_back(nullptr);
  const uint64_t longest = *std::max_element(spec.contexts.begin(), spec.contexts.end());

  Column names{"arm", {}};
  Column bits_k{"bpv K", {}};
  Column bits_v{"bpv V", {}};
  std::vector<Column> kl;
  for (const uint64_t context : spec.contexts) kl.push_back({fmt::format("mean KL at {}", context), {}});
  Column p99{fmt::format("p99 at {}", longest), {}};
  Column top1{"top-1 %", {}};
  Column ppl{"ppl ratio", {}};
  Column seconds{"s", {}};
  for (const ArmSpec* arm : rows) {
    names.rows.push_back(arm == nullptr ? "(floor)" : arm->name);
    double total_seconds = 0;
    for (size_t index = 0; index < spec.contexts.size(); ++index) {
      const std::vector<const CellRecord*> at = CellsAt(table, arm, spec.contexts[index]);
      const std::string gap = Gap(spec, arm, at.size());
      kl[index].rows.push_back(gap.empty() ? WithInterval(MeanMetric(at, Metric::kKl), KlInterval(spec, at)) : gap);
      for (const CellRecord* cell : at) total_seconds += cell->seconds;
    }
    std::vector<const CellRecord*> at = CellsAt(table, arm, longest);
    if (!Gap(spec, arm, at.size()).empty()) at.clear();
    bits_k.rows.push_back(Fixed(BitsPerValue(at, true), 2));
    bits_v.rows.push_back(Fixed(BitsPerValue(at, false), 2));
    p99.rows.push_back(Short(MeanMetric(at, Metric::kP99)));
    top1.rows.push_back(Fixed(100 * MeanMetric(at, Metric::kTop1), 2));
    ppl.rows.push_back(Fixed(MeanMetric(at, Metric::kPpl) / MeanMetric(at, Metric::kPpl, true), 4));
    seconds.rows.push_back(Fixed(total_seconds, 1));
  }

  std::vector<Column> columns = {names, bits_k, bits_v};
  columns.insert(columns.end(), kl.begin(), kl.end());
  columns.insert(columns.end(), {p99, top1, ppl, seconds});
  return columns;
}

size_t WidthOf(const Column& column) {
  size_t width = column.head.size();
  for (const std::string& row : column.rows) width = std::max(width, row.size());
  return width;
}

void AppendRow(std::span<const Column* const> block, size_t row, std::string* text) {
  std::string line;
  for (size_t index = 0; index < block.size(); ++index) {
    const Column& column = *block[index];
    const std::string& cell = row == 0 ? column.head : column.rows[row - 1];
    line += index == 0 ? fmt::format("{:<{}}", cell, WidthOf(column)) : fmt::format("  {:>{}}", cell, WidthOf(column));
  }
  line.erase(line.find_last_not_of(' ') + 1);
  *text += line + "\n";
}

std::string AsText(const std::vector<Column>& columns) {
  std::string text;
  size_t next = 1;
  while (next < columns.size()) {
    std::vector<const Column*> block = {&columns[0]};
    size_t width = WidthOf(columns[0]);
    while (next < columns.size() && (block.size() == 1 || width + 2 + WidthOf(columns[next]) <= kWidth)) {
      width += 2 + WidthOf(columns[next]);
      block.push_back(&columns[next++]);
    }
    if (!text.empty()) text += "\n";
    for (size_t row = 0; row <= columns[0].rows.size(); ++row) {
      AppendRow(block, row, &text);
      if (row == 0) text += std::string(width, '-') + "\n";
    }
  }
  return text;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<' || c == '`') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string AsMarkdown(const std::vector<Column>& columns) {
  std::string text;
  for (size_t row = 0; row <= columns[0].rows.size(); ++row) {
    for (const Column& column : columns)
      text += fmt::format("| {} ", Escaped(row == 0 ? column.head : column.rows[row - 1]));
    text += "|\n";
    if (row > 0) continue;
    for (size_t index = 0; index < columns.size(); ++index) text += index == 0 ? "|---" : "|--:";
    text += "|\n";
  }
  return text;
}

// Breaks at spaces; a word longer than a line stands alone.
std::string Wrapped(std::string_view text, size_t indent) {
  std::string wrapped;
  size_t column = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > 0 && column + 1 + word.size() > kWidth) {
      wrapped += '\n';
      column = 0;
    }
    if (column == 0) {
      wrapped += std::string(indent, ' ');
      column = indent;
    } else {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
  }
  return wrapped + "\n";
}

std::string CountOf(std::span<const BarVerdict> verdicts) {
  std::string counts;
  for (const Verdict verdict : {Verdict::kPass, Verdict::kNotMet, Verdict::kMissing, Verdict::kMistrusted}) {
    const auto number =
        std::count_if(verdicts.begin(), verdicts.end(), [&](const BarVerdict& bar) { return bar.verdict == verdict; });
    if (number > 0) counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", number, ToText(verdict));
  }
  return fmt::format("{} bar{}: {}", verdicts.size(), verdicts.size() == 1 ? "" : "s", counts);
}

}  // namespace

std::string ResultsTable(const ExperimentSpec& spec, std::span<const CellRecord> cells) {
  return AsText(Columns(spec, cells));
}

std::string ResultsMarkdown(const ExperimentSpec& spec, std::span<const CellRecord> cells) {
  return AsMarkdown(Columns(spec, cells));
}

std::string AttributionTable(std::string_view title, std::span<const AttributionRow> rows) {
  if (rows.empty()) return "";
  std::vector<Column> columns = {
      {std::string(title), {}}, {"K only", {}}, {"V only", {}}, {"both", {}}, {"both - K - V", {}}};
  for (const AttributionRow& row : rows) {
    columns[0].rows.push_back(fmt::format("at {}", row.context));
    columns[1].rows.push_back(Short(row.k_only));
    columns[2].rows.push_back(Short(row.v_only));
    columns[3].rows.push_back(Short(row.both));
    columns[4].rows.push_back(WithInterval(row.interaction, row.interaction_interval));
  }
  return AsText(columns);
}

std::string VerdictText(std::span<const BarVerdict> verdicts) {
  if (verdicts.empty()) return "";
  std::string text;
  for (const BarVerdict& bar : verdicts) {
    text += Wrapped(fmt::format("{:<10} {}: {}", ToText(bar.verdict), bar.name, bar.claim_text), 0);
    text += Wrapped(bar.sentence, 11);
  }
  return text + CountOf(verdicts) + "\n";
}

std::string VerdictMarkdown(std::span<const BarVerdict> verdicts) {
  if (verdicts.empty()) return "";
  std::string text;
  for (const BarVerdict& bar : verdicts) {
    text += fmt::format("- **{}** {}: {}  \n  {}\n", ToText(bar.verdict), Escaped(bar.name), Escaped(bar.claim_text),
                        Escaped(bar.sentence));
  }
  return text + "\n" + CountOf(verdicts) + "\n";
}

std::string TableCaption(const ExperimentSpec& spec) {
  uint64_t scored = 0;
  for (const SpanSpec& span : spec.spans) scored += span.length;
  const uint64_t longest = *std::max_element(spec.contexts.begin(), spec.contexts.end());
  return fmt::format(
      "KL(reference || arm) in nats, mean [95 % block bootstrap interval] over {} tokens in {} span{}; p99 KL, top-1 "
      "and\n"
      "ppl / reference ppl after {} tokens of context; bpv: stored bits per value; s: seconds of all cells.\n",
      scored, spec.spans.size(), spec.spans.size() == 1 ? "" : "s", longest);
}

std::string WarningsText(std::span<const CellRecord> cells) {
  std::vector<std::pair<std::string, uint64_t>> saturated;  // in the order of the cells
  bool fused = false;
  bool scalar = false;
  for (const CellRecord& cell : cells) {
    (cell.cpu_target == "SCALAR" ? scalar : fused) = true;
    if (cell.saturated == 0) continue;
    const auto same = [&](const auto& entry) { return entry.first == cell.key.arm; };
    const auto known = std::find_if(saturated.begin(), saturated.end(), same);
    if (known == saturated.end()) {
      saturated.emplace_back(cell.key.arm, cell.saturated);
    } else {
      known->second += cell.saturated;
    }
  }
  std::string text;
  for (const auto& [arm, values] : saturated) {
    text += fmt::format(
        "warning: arm {}: {} values were beyond what its format holds and were clamped; its KL includes that\n", arm,
        values);
  }
  if (fused && scalar) {
    text +=
        "warning: some cells ran on the SCALAR target and some on AVX2 or AVX-512, whose floats differ by rounding\n";
  }
  return text.empty() ? text : text + "\n";
}

}  // namespace kvant
