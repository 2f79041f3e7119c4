// results.csv: one row per cell, for spreadsheets and scripts.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kvant/base/result.h"
#include "kvant/results/cell.h"

namespace kvant {

// RFC 4180: a header, CRLF after every row, fields with a comma, quote or line break in quotes. Columns, in this order:
//   experiment, status ("ok" or "failed"), then the fields of VisitCellFields (results/cell.h) in their order and
//   under their names, with bpv_k and bpv_v (stored bits per value) after values_v.
// New columns are only ever added at the end. Numbers do not depend on the locale; doubles are the shortest text that
// reads back to the same value; what is not a number is an empty field.
std::string CsvOfCells(std::string_view experiment, std::span<const CellRecord> cells);

// Writes to "PATH.tmp" and renames, so that a reader sees the old file or the new one, never half of one.
Status WriteTextFile(const std::string& path, std::string_view text);

}  // namespace kvant
