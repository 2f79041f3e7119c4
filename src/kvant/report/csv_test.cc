#include "kvant/report/csv.h"

#include <charconv>
#include <cmath>
#include <clocale>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

// An independent reader of RFC 4180.
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"') {
        rows.back().back() += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        rows.back().back() += '"';
        ++at;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\r') {
      EXPECT_EQ(text.at(at + 1), '\n');
      ++at;
      rows.push_back({""});
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();  // after the last line break
  return rows;
}

CellRecord Cell() {
  CellRecord cell;
  cell.key = {"k4", "k=q4_0 v=f32", 2304, 256, 1024, "prefill", 512};
  cell.scored = 256;
  cell.mean_kl = 0.1;
  cell.p99_kl = 1.0 / 3;
  cell.top1 = 0.875;
  cell.nll = 2;
  cell.ppl = std::exp(2.0);
  cell.ref_nll = 1.5;
  cell.ref_ppl = 4.5;
  cell.seconds = 1.25;
  cell.tokens_per_second = 1024;
  cell.bytes_k = 18;
  cell.values_k = 32;
  cell.bytes_v = 128;
  cell.values_v = 32;
  cell.rows_exact = 0;
  cell.rows_quantized = 1280;
  cell.cache_hash = "f00d";
  cell.kvant_version = "0.1.0";
  cell.cpu_target = "AVX2";
  cell.threads = 2;
  cell.date = "2026-11-30T12:00:00Z";
  return cell;
}

// Scripts depend on this header: columns are only ever added at the end.
TEST(Csv, ColumnsAndARow) {
  const std::vector<CellRecord> cells = {Cell()};
  EXPECT_EQ(CsvOfCells("keys-vs-values", cells),
            "experiment,status,arm,policy,span_end_tokens,span_length_tokens,context_tokens,mode,chunk_tokens,reason,"
            "scored_tokens,mean_kl_nats,p99_kl_nats,top1_share,nll_nats,ppl,ref_nll_nats,ref_ppl,seconds,"
            "tokens_per_second,bytes_k,bytes_v,values_k,values_v,bpv_k,bpv_v,rows_exact,rows_quantized,"
            "saturated_values,cache_hash,kvant_version,cpu_target,threads,date_utc\r\n"
            "keys-vs-values,ok,k4,k=q4_0 v=f32,2304,256,1024,prefill,512,,256,0.1,0.3333333333333333,0.875,2,"
            "7.38905609893065,1.5,4.5,1.25,1024,18,128,32,32,4.5,32,0,1280,0,f00d,0.1.0,AVX2,2,"
            "2026-11-30T12:00:00Z\r\n");
}

TEST(Csv, QuotesWhatNeedsIt) {
  CellRecord cell = Cell();
  cell.status = CellStatus::kFailed;
  cell.reason = "a \"quoted\", long\r\nreason; \xc3\xa9";
  cell.mean_kl = std::nan("");
  const std::string csv = CsvOfCells("x,y", std::vector<CellRecord>{cell, Cell()});
  const std::vector<std::vector<std::string>> rows = ReadCsv(csv);
  ASSERT_EQ(rows.size(), 3u);
  for (const auto& row : rows) EXPECT_EQ(row.size(), rows[0].size());
  EXPECT_EQ(rows[1][0], "x,y");
  EXPECT_EQ(rows[1][1], "failed");
  EXPECT_EQ(rows[1][9], cell.reason);
  EXPECT_EQ(rows[1][11], "");  // not a number
}

TEST(Csv, DoublesReadBackExactlyInEveryLocale) {
  const char* old = std::setlocale(LC_ALL, nullptr);
  const std::string saved = old == nullptr ? "C" : old;
  std::setlocale(LC_ALL, "de_DE.UTF-8");  // stays "C" where it is not installed
  const CounterRng rng(1);
  for (uint64_t round = 0; round < 1000; ++round) {
    CellRecord cell = Cell();
    cell.mean_kl = std::ldexp(rng.Uniform(2 * round), static_cast<int>(rng.Below(2 * round + 1, 200)) - 150);
    const std::string text = ReadCsv(CsvOfCells("e", std::vector<CellRecord>{cell}))[1][11];
    double value = -1;
    std::from_chars(text.data(), text.data() + text.size(), value);
    EXPECT_EQ(value, cell.mean_kl) << text;
  }
  std::setlocale(LC_ALL, saved.c_str());
}

TEST(WriteTextFile, ReplacesAsAWhole) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("kvant_csv_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const std::string path = folder / "results.csv";
  ASSERT_TRUE(WriteTextFile(path, "long old text").has_value());
  ASSERT_TRUE(WriteTextFile(path, "new\r\n").has_value());
  std::ifstream file(path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "new\r\n");
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));

  const std::string missing = folder / "missing" / "results.csv";
  const Status status = WriteTextFile(missing, "text");
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().message, missing + ": cannot be written; check that the folder exists and has 4 free bytes");
  EXPECT_FALSE(WriteTextFile(folder, "text").has_value());  // a folder is no file
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(std::filesystem::exists(folder.string() + ".tmp"));
}

}  // namespace
}  // namespace kvant
