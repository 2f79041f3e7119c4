#include "kvant/results/store.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <type_traits>

#include <SQLiteCpp/SQLiteCpp.h>

namespace kvant {
namespace {

static_assert(std::endian::native == std::endian::little, "blobs are little-endian arrays");

constexpr int kApplicationId = 0x6b766e74;  // "kvnt": tells a kvant file from any other SQLite file
constexpr int kSchemaVersion = 1;
constexpr int kBusyTimeoutMs = 15000;
constexpr int kSqliteBusy = 5;
constexpr int kSqliteLocked = 6;
constexpr int kSqliteFull = 13;
constexpr int kSqliteNotADatabase = 26;
constexpr int kSqliteCorrupt = 11;
constexpr std::uintmax_t kSqliteHeaderBytes = 100;

std::string ErrorText(const std::string& path, const SQLite::Exception& error) {
  switch (error.getErrorCode()) {
    case kSqliteNotADatabase:
      return fmt::format("{}: not a results database; name another file", path);
    case kSqliteCorrupt:
      return fmt::format("{}: the results database is damaged ({}); restore a copy or move it away", path,
                         error.what());
    case kSqliteBusy:
    case kSqliteLocked:
      return fmt::format("{}: another program holds the results database; end it and run again", path);
    case kSqliteFull:
      return fmt::format("{}: the disk is full; free space and run again: what was stored stays", path);
    default:
      return fmt::format("{}: results database: {}; see that the folder is there, writable and not changed by others",
                         path, error.what());
  }
}

// Runs body and turns what SQLiteCpp throws into an Error.
template <typename Body>
auto Guarded(const std::string& path, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& error) {
    return tl::unexpected<Error>(Error{ErrorText(path, error)});
  } catch (const std::exception& error) {
    return Fail("{}: results database: {}", path, error.what());
  }
}

// Names, types and parameters of the cell table, all from VisitCellFields.
struct CellSql {
  std::string columns;     // "arm, policy, ..."
  std::string parameters;  // "?, ?, ..."
  std::string types;       // "arm TEXT NOT NULL, ..."
  std::string updates;     // "arm = excluded.arm, ..."

  CellSql() {
    const CellRecord record;
    VisitCellFields(record, [this](std::string_view name, const auto& field) {
      using Field = std::decay_t<decltype(field)>;
      // SQLite stores NaN as NULL, so REAL columns may be NULL.
      Add(name, std::is_same_v<Field, std::string> ? "TEXT NOT NULL"
                : std::is_same_v<Field, double>    ? "REAL"
                                                   : "INTEGER NOT NULL");
    });
    Add("status", "INTEGER NOT NULL");
    for (const char* blob : {"token_kl", "token_nll", "token_ref_nll", "token_agree"}) Add(blob, "BLOB NOT NULL");
  }

 private:
  void Add(std::string_view name, std::string_view type) {
    const std::string_view comma = columns.empty() ? "" : ", ";
    columns += fmt::format("{}{}", comma, name);
    parameters += fmt::format("{}?", comma);
    types += fmt::format("{}{} {}", comma, name, type);
    updates += fmt::format("{}{} = excluded.{}", comma, name, name);
  }
};

const CellSql& Sql() {
  static const CellSql sql;
  return sql;
}

constexpr std::string_view kIdentity =
    "experiment_id, policy, span_end_tokens, span_length_tokens, context_tokens, mode, chunk_tokens";

void CreateSchema(SQLite::Database& db) {
  db.exec(
      "CREATE TABLE experiments (id INTEGER PRIMARY KEY, spec_hash TEXT NOT NULL UNIQUE, name TEXT NOT NULL, "
      "model_hash TEXT NOT NULL, text_hash TEXT NOT NULL, spec_text TEXT NOT NULL, date_utc TEXT NOT NULL)");
  db.exec(
      fmt::format("CREATE TABLE cells (id INTEGER PRIMARY KEY, experiment_id INTEGER NOT NULL REFERENCES "
                  "experiments(id), {}, UNIQUE ({}))",
                  Sql().types, kIdentity));
  db.exec(fmt::format("PRAGMA application_id = {}", kApplicationId));
  db.exec(fmt::format("PRAGMA user_version = {}", kSchemaVersion));
}

int Pragma(SQLite::Database& db, const char* name) { return db.execAndGet(fmt::format("PRAGMA {}", name)).getInt(); }

// Under a write lock, so that of two processes that open a new file one creates the tables and the other finds them.
Status PrepareSchema(SQLite::Database& db, const std::string& path) {
  if (const std::string check = db.execAndGet("PRAGMA quick_check(1)").getString(); check != "ok") {
    return Fail("{}: the results database is damaged ({}); restore a copy or move it away", path, check);
  }
  if (Pragma(db, "application_id") == kApplicationId && Pragma(db, "user_version") == kSchemaVersion) return {};
  SQLite::Transaction transaction(db, SQLite::TransactionBehavior::IMMEDIATE);
  const int application = Pragma(db, "application_id");
  const int version = Pragma(db, "user_version");
  const int objects = db.execAndGet("SELECT COUNT(*) FROM sqlite_master").getInt();
  if (application == 0 && version == 0 && objects == 0) {
    CreateSchema(db);
    transaction.commit();
    return {};
  }
  if (application != kApplicationId) {
    return Fail("{}: a database of another program; name another file for the results", path);
  }
  if (version > kSchemaVersion) {
    return Fail("{}: results of schema {} but this kvant reads up to {}; use a newer kvant", path, version,
                kSchemaVersion);
  }
  if (version < kSchemaVersion) {
    return Fail("{}: results of schema {}, which no kvant wrote; move the file away", path, version);
  }
  return {};
}

template <typename T>
void BindBlob(SQLite::Statement& insert, int index, const std::vector<T>& values) {
  // A null pointer would bind NULL; an empty blob still needs an address.
  static constexpr char kEmpty = 0;
  const void* bytes = values.empty() ? static_cast<const void*>(&kEmpty) : values.data();
  insert.bind(index, bytes, static_cast<int>(values.size() * sizeof(T)));
}

template <typename T>
bool ReadBlob(const SQLite::Column& column, uint64_t count, std::vector<T>* values) {
  if (static_cast<uint64_t>(column.getBytes()) != count * sizeof(T)) return false;
  values->resize(count);
  if (count > 0) std::memcpy(values->data(), column.getBlob(), count * sizeof(T));
  return true;
}

void BindField(SQLite::Statement& insert, int index, const std::string& value) { insert.bind(index, value); }
void BindField(SQLite::Statement& insert, int index, double value) { insert.bind(index, value); }
void BindField(SQLite::Statement& insert, int index, uint64_t value) {
  insert.bind(index, static_cast<int64_t>(value));
}

void ReadField(const SQLite::Column& column, std::string* value) { *value = column.getString(); }
void ReadField(const SQLite::Column& column, double* value) {
  *value = column.isNull() ? std::numeric_limits<double>::quiet_NaN() : column.getDouble();
}
void ReadField(const SQLite::Column& column, uint64_t* value) { *value = static_cast<uint64_t>(column.getInt64()); }

// Columns in the order of CellSql.
Result<CellRecord> ReadCell(SQLite::Statement& row, const std::string& path) {
  CellRecord record;
  int index = 0;
  VisitCellFields(record, [&](std::string_view, auto& field) { ReadField(row.getColumn(index++), &field); });
  record.status = row.getColumn(index++).getInt() == 0 ? CellStatus::kOk : CellStatus::kFailed;
  const uint64_t tokens = static_cast<uint64_t>(row.getColumn(index + 3).getBytes());
  const uint64_t targets = tokens == 0 ? 0 : tokens - 1;
  const bool whole = ReadBlob(row.getColumn(index), tokens, &record.tokens.kl) &&
                     ReadBlob(row.getColumn(index + 1), targets, &record.tokens.nll) &&
                     ReadBlob(row.getColumn(index + 2), targets, &record.tokens.ref_nll) &&
                     ReadBlob(row.getColumn(index + 3), tokens, &record.tokens.agree);
  if (!whole || (record.status == CellStatus::kOk && tokens != record.scored)) {
    return Fail("{}: the per-token values of cell '{}' have the wrong size; the file was changed, restore a copy", path,
                Describe(record.key));
  }
  return record;
}

}  // namespace

struct ResultsStore::Impl {
  Impl(const std::string& file, int flags) : path(file), db(file, flags, kBusyTimeoutMs) {}

  std::string path;
  SQLite::Database db;
};

ResultsStore::ResultsStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResultsStore::ResultsStore(ResultsStore&&) noexcept = default;
ResultsStore& ResultsStore::operator=(ResultsStore&&) noexcept = default;
ResultsStore::~ResultsStore() = default;

Result<ResultsStore> ResultsStore::Open(const std::string& path, OpenMode mode) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return Fail("{}: a folder; name a file for the results database", path);
  }
  if (mode == OpenMode::kMustExist && !std::filesystem::exists(path, ignored)) {
    return Fail("{}: no such results database; run an experiment first", path);
  }
  // SQLite takes a file of one byte for an empty database and would write over it.
  const std::uintmax_t bytes = std::filesystem::file_size(path, ignored);
  if (!ignored && bytes > 0 && bytes < kSqliteHeaderBytes) {
    return Fail("{}: not a results database; name another file", path);
  }
  return Guarded(path, [&]() -> Result<ResultsStore> {
    const int flags = SQLite::OPEN_READWRITE | (mode == OpenMode::kCreate ? SQLite::OPEN_CREATE : 0);
    auto impl = std::make_unique<Impl>(path, flags);
    impl->db.exec("PRAGMA synchronous = FULL");
    impl->db.exec("PRAGMA foreign_keys = ON");
    KVANT_RETURN_IF_ERROR(PrepareSchema(impl->db, path));
    return ResultsStore(std::move(impl));
  });
}

Status ResultsStore::PutExperiment(const ExperimentInfo& info) {
  return Guarded(impl_->path, [&]() -> Status {
    SQLite::Statement insert(impl_->db,
                             "INSERT INTO experiments (spec_hash, name, model_hash, text_hash, spec_text, date_utc) "
                             "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (spec_hash) DO NOTHING");
    int index = 0;
    for (const std::string* text :
         {&info.spec_hash, &info.name, &info.model_hash, &info.text_hash, &info.spec_text, &info.date}) {
      insert.bind(++index, *text);
    }
    insert.exec();
    return {};
  });
}

Result<std::vector<ExperimentInfo>> ResultsStore::Experiments() {
  return Guarded(impl_->path, [&]() -> Result<std::vector<ExperimentInfo>> {
    SQLite::Statement row(impl_->db,
                          "SELECT spec_hash, name, model_hash, text_hash, spec_text, date_utc FROM experiments "
                          "ORDER BY id");
    std::vector<ExperimentInfo> experiments;
    while (row.executeStep()) {
      experiments.push_back({row.getColumn(0).getString(), row.getColumn(1).getString(), row.getColumn(2).getString(),
                             row.getColumn(3).getString(), row.getColumn(4).getString(), row.getColumn(5).getString()});
    }
    return experiments;
  });
}

Result<bool> ResultsStore::PutCell(const std::string& spec_hash, const CellRecord& record) {
  return Guarded(impl_->path, [&]() -> Result<bool> {
    SQLite::Transaction transaction(impl_->db, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement find(impl_->db, "SELECT id FROM experiments WHERE spec_hash = ?");
    find.bind(1, spec_hash);
    if (!find.executeStep()) return Fail("{}: experiment {} is not registered", impl_->path, spec_hash);
    const int64_t experiment = find.getColumn(0).getInt64();

    SQLite::Statement insert(
        impl_->db, fmt::format("INSERT INTO cells (experiment_id, {}) VALUES (?, {}) ON CONFLICT ({}) DO UPDATE SET {} "
                               "WHERE cells.status <> 0",
                               Sql().columns, Sql().parameters, kIdentity, Sql().updates));
    insert.bind(1, experiment);
    int index = 1;
    VisitCellFields(record, [&](std::string_view, const auto& field) { BindField(insert, ++index, field); });
    insert.bind(++index, record.status == CellStatus::kOk ? 0 : 1);
    BindBlob(insert, ++index, record.tokens.kl);
    BindBlob(insert, ++index, record.tokens.nll);
    BindBlob(insert, ++index, record.tokens.ref_nll);
    BindBlob(insert, ++index, record.tokens.agree);
    const bool stored = insert.exec() > 0;
    transaction.commit();
    return stored;
  });
}

Result<std::optional<CellRecord>> ResultsStore::FindCell(const std::string& spec_hash, const CellKey& key) {
  return Guarded(impl_->path, [&]() -> Result<std::optional<CellRecord>> {
    SQLite::Statement row(
        impl_->db, fmt::format("SELECT {} FROM cells WHERE experiment_id = (SELECT id FROM experiments WHERE spec_hash "
                               "= ?) AND policy = ? AND span_end_tokens = ? AND span_length_tokens = ? AND "
                               "context_tokens = ? AND mode = ? AND chunk_tokens = ?",
                               Sql().columns));
    row.bind(1, spec_hash);
    row.bind(2, key.policy);
    BindField(row, 3, key.span_end);
    BindField(row, 4, key.span_length);
    BindField(row, 5, key.context);
    row.bind(6, key.mode);
    BindField(row, 7, key.chunk);
    if (!row.executeStep()) return std::optional<CellRecord>();
    KVANT_ASSIGN_OR_RETURN(CellRecord record, ReadCell(row, impl_->path));
    record.key.arm = key.arm;
    return std::optional<CellRecord>(std::move(record));
  });
}

Result<std::vector<CellRecord>> ResultsStore::Cells(const std::string& spec_hash) {
  return Guarded(impl_->path, [&]() -> Result<std::vector<CellRecord>> {
    SQLite::Statement row(
        impl_->db, fmt::format("SELECT {} FROM cells WHERE experiment_id = (SELECT id FROM experiments WHERE spec_hash "
                               "= ?) ORDER BY id",
                               Sql().columns));
    row.bind(1, spec_hash);
    std::vector<CellRecord> cells;
    while (row.executeStep()) {
      KVANT_ASSIGN_OR_RETURN(CellRecord record, ReadCell(row, impl_->path));
      cells.push_back(std::move(record));
    }
    return cells;
  });
}

}  // namespace kvant
