// results.db: experiments and their cells in one SQLite file. Every cell is one transaction in SQLite's rollback
// journal, fully synced: a kill at any moment loses at most the cell in flight, and the next Open rolls that back. Two
// processes may write at once; each waits for the other.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/results/cell.h"

namespace kvant {

struct ExperimentInfo {
  std::string spec_hash;  // SpecHash: cells of different hashes never meet
  std::string name;
  std::string model_hash;
  std::string text_hash;
  std::string spec_text;  // the TOML file as it was at the first run
  std::string date;       // of the first run, ISO 8601, UTC
};

enum class OpenMode { kCreate, kMustExist };

class ResultsStore {
 public:
  // Creates the file with kCreate; an empty file counts as new. Errors, one sentence each: no such file, no database,
  // a database of another program, of a newer schema, damaged (SQLite's quick_check runs here), not accessible.
  static Result<ResultsStore> Open(const std::string& path, OpenMode mode);

  ResultsStore(ResultsStore&&) noexcept;
  ResultsStore& operator=(ResultsStore&&) noexcept;
  ~ResultsStore();

  // Registers an experiment; does nothing when its spec_hash is known (the first texts stay).
  Status PutExperiment(const ExperimentInfo& info);
  Result<std::vector<ExperimentInfo>> Experiments();

  // Stores one cell with its per-token values, in one transaction. Results are append-only: a failed record may be
  // replaced, an ok record stays as it is; the answer says whether this record was stored. The experiment must be
  // registered.
  Result<bool> PutCell(const std::string& spec_hash, const CellRecord& record);

  // By identity (SameCell); the label of the stored record is replaced by key.arm.
  Result<std::optional<CellRecord>> FindCell(const std::string& spec_hash, const CellKey& key);

  // All cells of an experiment in the order in which they were stored.
  Result<std::vector<CellRecord>> Cells(const std::string& spec_hash);

 private:
  struct Impl;
  explicit ResultsStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvant
