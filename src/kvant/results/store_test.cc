#include "kvant/results/store.h"

#include <csignal>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/base/rng.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;

CellRecord Cell(uint64_t ordinal) {
  CellRecord cell;
  cell.key = {"k4", "k=q4_0 v=f32", 1000 + ordinal, 256, 1024, "prefill", 512};
  const CounterRng rng(ordinal);
  for (uint64_t token = 0; token < 256; ++token) {
    cell.tokens.kl.push_back(rng.Uniform(4 * token));
    cell.tokens.nll.push_back(rng.Uniform(4 * token + 1));
    cell.tokens.ref_nll.push_back(rng.Uniform(4 * token + 2));
    cell.tokens.agree.push_back(static_cast<uint8_t>(rng.Bits(4 * token + 3) & 1));
  }
  cell.tokens.nll.pop_back();  // the last token has no target
  cell.tokens.ref_nll.pop_back();
  FillFromTokens(&cell);
  cell.seconds = 1.0 / 3;
  cell.tokens_per_second = 1e300;
  cell.bytes_k = 18;
  cell.values_k = 32;
  cell.bytes_v = uint64_t{1} << 40;
  cell.values_v = uint64_t{1} << 38;
  cell.rows_exact = 5;
  cell.rows_quantized = 1275;
  cell.saturated = 2;
  cell.cache_hash = "f00d";
  cell.kvant_version = "0.1.0";
  cell.cpu_target = "AVX2";
  cell.threads = 2;
  cell.date = "2026-11-30T12:00:00Z";
  return cell;
}

// Every field and every token value; NaN equals NaN.
void ExpectSame(const CellRecord& a, const CellRecord& b) {
  std::vector<std::string> left;
  std::vector<std::string> right;
  VisitCellFields(a, [&](const char* name, const auto& field) { left.push_back(fmt::format("{} {}", name, field)); });
  VisitCellFields(b, [&](const char* name, const auto& field) { right.push_back(fmt::format("{} {}", name, field)); });
  EXPECT_EQ(left, right);
  EXPECT_EQ(a.status, b.status);
  EXPECT_EQ(a.tokens.kl, b.tokens.kl);
  EXPECT_EQ(a.tokens.nll, b.tokens.nll);
  EXPECT_EQ(a.tokens.ref_nll, b.tokens.ref_nll);
  EXPECT_EQ(a.tokens.agree, b.tokens.agree);
}

class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() / ("kvant_store_" + std::to_string(getpid()) + "_" + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "results.db";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ResultsStore Open() {
    Result<ResultsStore> store = ResultsStore::Open(path_, OpenMode::kCreate);
    if (!store) ADD_FAILURE() << store.error().message;
    return std::move(*store);
  }
  std::string OpenError(OpenMode mode = OpenMode::kCreate) {
    const Result<ResultsStore> store = ResultsStore::Open(path_, mode);
    return store ? "" : store.error().message;
  }
  void Execute(const std::string& sql) {
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path_.c_str(), &db), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  }
  std::string Bytes() {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void WriteBytes(const std::string& bytes) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes; }

  std::filesystem::path folder_;
  std::string path_;
};

TEST_F(StoreTest, GivesBackWhatWasPut) {
  const CellRecord cell = Cell(1);
  CellRecord failed;
  failed.key = Cell(2).key;
  failed.status = CellStatus::kFailed;
  failed.reason = "it's \"broken\"; \xc3\xa9";
  {
    ResultsStore store = Open();
    ASSERT_TRUE(store.PutExperiment({"hash", "name", "model", "text", "spec = 1", "now"}).has_value());
    EXPECT_TRUE(store.PutCell("hash", cell).value());
    EXPECT_TRUE(store.PutCell("hash", failed).value());
  }
  ResultsStore store = Open();
  const std::vector<CellRecord> cells = store.Cells("hash").value();
  ASSERT_EQ(cells.size(), 2u);
  ExpectSame(cells[0], cell);
  ExpectSame(cells[1], failed);
  EXPECT_TRUE(std::isnan(cells[1].mean_kl));
  CellKey renamed = cell.key;
  renamed.arm = "new name";
  const std::optional<CellRecord> found = store.FindCell("hash", renamed).value();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->key.arm, "new name");
  EXPECT_EQ(found->mean_kl, cell.mean_kl);
  renamed.context = 1;
  EXPECT_FALSE(store.FindCell("hash", renamed).value().has_value());
}

TEST_F(StoreTest, ResultsAreAppendOnly) {
  ResultsStore store = Open();
  ASSERT_TRUE(store.PutExperiment({"hash", "first", "", "", "", ""}).has_value());
  ASSERT_TRUE(store.PutExperiment({"hash", "second", "", "", "", ""}).has_value());
  ASSERT_EQ(store.Experiments().value().size(), 1u);
  EXPECT_EQ(store.Experiments().value()[0].name, "first");

  CellRecord failed;
  failed.key = Cell(1).key;
  failed.status = CellStatus::kFailed;
  failed.reason = "out of memory";
  EXPECT_TRUE(store.PutCell("hash", failed).value());
  EXPECT_TRUE(store.PutCell("hash", Cell(1)).value());  // a failed cell may be measured again
  CellRecord changed = Cell(1);
  changed.mean_kl = 99;
  EXPECT_FALSE(store.PutCell("hash", changed).value());
  EXPECT_FALSE(store.PutCell("hash", failed).value());
  const std::vector<CellRecord> cells = store.Cells("hash").value();
  ASSERT_EQ(cells.size(), 1u);
  ExpectSame(cells[0], Cell(1));
}

TEST_F(StoreTest, SpecsNeverMix) {
  ResultsStore store = Open();
  ASSERT_TRUE(store.PutExperiment({"old", "e", "", "", "", ""}).has_value());
  ASSERT_TRUE(store.PutExperiment({"new", "e", "", "", "", ""}).has_value());
  ASSERT_TRUE(store.PutCell("old", Cell(1)).value());
  EXPECT_TRUE(store.Cells("new").value().empty());
  EXPECT_FALSE(store.FindCell("new", Cell(1).key).value().has_value());
  EXPECT_TRUE(store.PutCell("new", Cell(1)).value());
  EXPECT_EQ(store.Cells("old").value().size(), 1u);
  EXPECT_THAT(store.PutCell("unknown", Cell(1)).error().message, HasSubstr("experiment unknown is not registered"));
}

// A child writes cells and reports each after its commit; it is killed in the middle. Everything reported is there and
// whole, at most one more is, and the next run goes on.
TEST_F(StoreTest, KillLosesAtMostTheCellInFlight) {
  Open();
  for (int round = 0; round < 6; ++round) {
    const std::string hash = "round " + std::to_string(round);
    int reports[2];
    ASSERT_EQ(pipe(reports), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(reports[0]);
      Result<ResultsStore> store = ResultsStore::Open(path_, OpenMode::kMustExist);
      if (!store || !store->PutExperiment({hash, "", "", "", "", ""})) _exit(1);
      for (uint64_t ordinal = 0; ordinal < 5000; ++ordinal) {
        if (!store->PutCell(hash, Cell(ordinal))) _exit(1);
        const char report = 'x';
        if (write(reports[1], &report, 1) != 1) _exit(1);
      }
      _exit(0);
    }
    close(reports[1]);
    uint64_t committed = 0;
    char report;
    while (committed < 10 && read(reports[0], &report, 1) == 1) ++committed;
    usleep(static_cast<useconds_t>(1500 * round));  // somewhere inside the next transactions
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << status;
    while (read(reports[0], &report, 1) == 1) ++committed;
    close(reports[0]);
    EXPECT_GE(committed, 10u);

    ResultsStore store = Open();
    const std::vector<CellRecord> cells = store.Cells(hash).value();
    EXPECT_GE(cells.size(), committed);
    EXPECT_LE(cells.size(), committed + 1);
    for (uint64_t ordinal = 0; ordinal < cells.size(); ++ordinal) ExpectSame(cells[ordinal], Cell(ordinal));
    EXPECT_TRUE(store.PutCell(hash, Cell(9999)).value());
  }
}

TEST_F(StoreTest, TwoProcessesMayWriteAtOnce) {
  constexpr uint64_t kCells = 40;
  std::vector<pid_t> children;
  for (uint64_t process = 0; process < 2; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Both also race to create the file. The second half of the cells is written by both.
      Result<ResultsStore> store = ResultsStore::Open(path_, OpenMode::kCreate);
      if (!store || !store->PutExperiment({"hash", "", "", "", "", ""})) _exit(1);
      for (uint64_t ordinal = 0; ordinal < kCells; ++ordinal) {
        const bool shared = ordinal >= kCells / 2;
        if (!store->PutCell("hash", Cell(shared ? ordinal : 1000 * (process + 1) + ordinal))) _exit(2);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  ResultsStore store = Open();
  EXPECT_EQ(store.Cells("hash").value().size(), kCells / 2 * 3);
}

TEST_F(StoreTest, OtherFilesAreRefusedInOneSentence) {
  EXPECT_EQ(OpenError(OpenMode::kMustExist), path_ + ": no such results database; run an experiment first");
  WriteBytes("");
  EXPECT_EQ(OpenError(), "");  // an empty file is a new database

  WriteBytes("name,value\n" + std::string(5000, 'x'));
  EXPECT_EQ(OpenError(), path_ + ": not a results database; name another file");
  WriteBytes("short");
  EXPECT_EQ(OpenError(), path_ + ": not a results database; name another file");
  WriteBytes("");
  Execute("CREATE TABLE other (x)");
  EXPECT_EQ(OpenError(), path_ + ": a database of another program; name another file for the results");

  path_ = folder_;
  EXPECT_EQ(OpenError(), path_ + ": a folder; name a file for the results database");
  path_ = folder_ / "missing" / "results.db";
  EXPECT_THAT(OpenError(), HasSubstr(path_ + ": results database: unable to open database file"));
}

TEST_F(StoreTest, OtherSchemasAreRefused) {
  Open();
  Execute("PRAGMA user_version = 7");
  EXPECT_EQ(OpenError(), path_ + ": results of schema 7 but this kvant reads up to 1; use a newer kvant");
  Execute("PRAGMA user_version = 0");
  EXPECT_THAT(OpenError(), HasSubstr("results of schema 0, which no kvant wrote"));
}

TEST_F(StoreTest, DamagedFilesGiveErrorsAndNoWrongCells) {
  {
    ResultsStore store = Open();
    ASSERT_TRUE(store.PutExperiment({"hash", "name", "", "", "", ""}).has_value());
    for (uint64_t ordinal = 0; ordinal < 4; ++ordinal) ASSERT_TRUE(store.PutCell("hash", Cell(ordinal)).value());
  }
  const std::string whole = Bytes();
  ASSERT_GT(whole.size(), 16384u);
  // Every truncation that changes a page border, and some inside.
  for (size_t length = 1; length < whole.size(); length += length < 200 ? 13 : 1021) {
    WriteBytes(whole.substr(0, length));
    EXPECT_THAT(OpenError(), ::testing::AnyOf(HasSubstr("damaged"), HasSubstr("not a results database"))) << length;
  }
  for (size_t length = 4096; length < whole.size(); length += 4096) {
    WriteBytes(whole.substr(0, length));
    EXPECT_THAT(OpenError(), HasSubstr("damaged")) << length;
  }
  // Overwritten pages: refused on opening or on reading, or, where only numbers were hit, still the same cells.
  size_t refused = 0;
  for (size_t page = 0; page + 4096 <= whole.size(); page += 4096) {
    std::string broken = whole;
    for (size_t byte = 0; byte < 64; ++byte) broken[page + byte] = static_cast<char>(0xa5);
    WriteBytes(broken);
    Result<ResultsStore> store = ResultsStore::Open(path_, OpenMode::kMustExist);
    if (!store || !store->Cells("hash")) ++refused;
  }
  EXPECT_GT(refused, 2u);  // the header, the schema and the tree pages at least
  WriteBytes(whole);
  EXPECT_EQ(OpenError(), "");
}

TEST_F(StoreTest, BlobsOfTheWrongSizeAreRefused) {
  {
    ResultsStore store = Open();
    ASSERT_TRUE(store.PutExperiment({"hash", "name", "", "", "", ""}).has_value());
    ASSERT_TRUE(store.PutCell("hash", Cell(0)).value());
  }
  Execute("UPDATE cells SET token_kl = x'00'");
  EXPECT_THAT(Open().Cells("hash").error().message, HasSubstr("the per-token values of cell 'k4 (k=q4_0 v=f32), 1024 "
                                                              "tokens before the span that ends at 1000' have"));
}

}  // namespace
}  // namespace kvant
