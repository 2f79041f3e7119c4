#include "kvant/report/csv.h"

#include <cmath>
#include <filesystem>
#include <fstream>

namespace kvant {
namespace {

std::string Field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string Field(uint64_t value) { return fmt::format("{}", value); }
std::string Field(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

}  // namespace

std::string CsvOfCells(std::string_view experiment, std::span<const CellRecord> cells) {
  std::string csv = "experiment,status";
  const CellRecord names;
  VisitCellFields(names, [&](std::string_view name, const auto&) {
    csv += fmt::format(",{}", name);
    if (name == "values_v") csv += ",bpv_k,bpv_v";
  });
  csv += "\r\n";
  for (const CellRecord& cell : cells) {
    csv += Field(experiment);
    csv += cell.status == CellStatus::kOk ? ",ok" : ",failed";
    VisitCellFields(cell, [&](std::string_view name, const auto& field) {
      csv += ',';
      csv += Field(field);
      if (name == "values_v") csv += fmt::format(",{},{}", Field(cell.bpv_k()), Field(cell.bpv_v()));
    });
    csv += "\r\n";
  }
  return csv;
}

Status WriteTextFile(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  std::error_code error;
  {
    std::ofstream file(temporary, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    file.close();
    if (!file) {
      std::filesystem::remove(temporary, error);
      return Fail("{}: cannot be written; check that the folder exists and has {} free bytes", path, text.size());
    }
  }
  std::filesystem::rename(temporary, path, error);
  if (error) {
    const std::string reason = error.message();
    std::filesystem::remove(temporary, error);
    return Fail("{}: cannot be replaced: {}", path, reason);
  }
  return {};
}

}  // namespace kvant
