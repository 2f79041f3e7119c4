// Runs an experiment: every cell that the store does not hold yet, one transaction each.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvant/base/progress.h"
#include "kvant/base/result.h"
#include "kvant/cache/policy.h"
#include "kvant/model/transformer.h"
#include "kvant/results/cell.h"
#include "kvant/results/spec.h"
#include "kvant/results/store.h"

namespace kvant {

// What a spec means once its model and text are known.
struct ExperimentInputs {
  std::vector<int32_t> tokens;  // of the whole text
  std::optional<int32_t> bos;   // put before every context where the vocabulary asks for one
  std::string model_hash;       // SHA-256 of the file
  std::string text_hash;        // SHA-256 of the bytes
};

// Policies of the spec against the model: syntax, and what the cache can store. All errors together, a line each, with
// file, line and column. Also that every span fits the text and, with its context and a BOS, the model's trained
// length.
Status CheckAgainstModel(const ExperimentSpec& spec, const ModelConfig& config, const ExperimentInputs& inputs);

struct RunSummary {
  std::string spec_hash;
  // Of this spec, old and new: by context, then span, each with identity and floor first and then the arms as written.
  std::vector<CellRecord> cells;
  size_t total_cells = 0;  // that the spec asks for
  size_t kept_cells = 0;   // of them measured by an earlier run
  size_t new_cells = 0;
  size_t failed_cells = 0;
  bool stopped = false;  // the sink asked for it: run again to go on
};

// The cells: per span and context the reference, then every arm; on the first span of each context also the floor,
// which is the reference again, as an identity arm (unless the spec has an arm with the reference's policy text, which
// is one) and (with [floor]) in chunks of another size. A cell that fails is
// recorded with its reason and the run goes on. Hidden states of the reference stay in memory for one span and context
// and are recomputed when a run is continued. Call CheckAgainstModel first.
Result<RunSummary> RunExperiment(const ExperimentSpec& spec, const std::string& spec_text,
                                 const ExperimentInputs& inputs, Transformer& transformer, ThreadPool& pool,
                                 ResultsStore& store, ProgressSink& progress);

}  // namespace kvant
