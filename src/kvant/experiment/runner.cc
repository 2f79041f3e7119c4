#include "kvant/experiment/runner.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "kvant/base/cpu_target.h"
#include "kvant/eval/divergence.h"
#include "kvant/eval/prefill_run.h"
#include "kvant/experiment/provenance.h"

namespace kvant {
namespace {

struct PlannedCell {
  CellKey key;
  Policy policy;
};

// Cells that share a reference run.
struct PlannedSpan {
  SpanSpec span;
  uint64_t context = 0;
  std::vector<PlannedCell> cells;  // still to be measured
};

CellKey KeyOf(const std::string& arm, const std::string& policy, const SpanSpec& span, uint64_t context,
              uint64_t chunk) {
  CellKey key;
  key.arm = arm;
  key.policy = policy;
  key.span_end = span.end;
  key.span_length = span.length;
  key.context = context;
  key.chunk = chunk;
  return key;
}

class Runner {
 public:
  Runner(const ExperimentSpec& spec, const ExperimentInputs& inputs, Transformer& transformer, ThreadPool& pool,
         ResultsStore& store, ProgressSink& progress)
      : spec_(spec),
        inputs_(inputs),
        transformer_(transformer),
        pool_(pool),
        store_(store),
        progress_(progress),
        hash_(SpecHash(spec, {inputs.model_hash, inputs.text_hash})) {}

  Result<RunSummary> Run(const std::string& spec_text) {
    KVANT_RETURN_IF_ERROR(
        store_.PutExperiment({hash_, spec_.name, inputs_.model_hash, inputs_.text_hash, spec_text, DateUtc()}));
    KVANT_ASSIGN_OR_RETURN(const std::vector<PlannedSpan> plan, Plan());
    start_ = std::chrono::steady_clock::now();
    for (const PlannedSpan& span : plan) {
      if (span.cells.empty()) continue;
      KVANT_RETURN_IF_ERROR(RunSpan(span));
      if (summary_.stopped) break;
    }
    summary_.spec_hash = hash_;
    // Not store_.Cells: that also has cells under labels that an arm no longer has, and of an earlier [floor].
    for (const CellKey& key : keys_) {
      KVANT_ASSIGN_OR_RETURN(std::optional<CellRecord> stored, store_.FindCell(hash_, key));
      if (stored) summary_.cells.push_back(*std::move(stored));
    }
    return std::move(summary_);
  }

 private:
  bool HasArm(const std::string& policy) const {
    return std::any_of(spec_.arms.begin(), spec_.arms.end(), [&](const ArmSpec& arm) { return arm.policy == policy; });
  }

  Result<std::vector<PlannedSpan>> Plan() {
    KVANT_ASSIGN_OR_RETURN(const Policy reference, ParsePolicy(spec_.reference));
    std::vector<PlannedSpan> plan;
    for (const uint64_t context : spec_.contexts) {
      for (const SpanSpec& span : spec_.spans) {
        PlannedSpan planned{span, context, {}};
        std::vector<PlannedCell> wanted;
        if (span == spec_.spans.front()) {
          if (!HasArm(spec_.reference)) {
            wanted.push_back({KeyOf("identity", spec_.reference, span, context, spec_.chunk), reference});
          }
          if (spec_.floor_second_chunk) {
            wanted.push_back({KeyOf("floor", spec_.reference, span, context, *spec_.floor_second_chunk), reference});
          }
        }
        for (const ArmSpec& arm : spec_.arms) {
          KVANT_ASSIGN_OR_RETURN(Policy policy, ParsePolicy(arm.policy));
          wanted.push_back({KeyOf(arm.name, arm.policy, span, context, spec_.chunk), std::move(policy)});
        }
        for (PlannedCell& cell : wanted) {
          keys_.push_back(cell.key);
          KVANT_ASSIGN_OR_RETURN(const std::optional<CellRecord> stored, store_.FindCell(hash_, cell.key));
          ++summary_.total_cells;
          if (stored && stored->status == CellStatus::kOk) {
            ++done_cells_;
            ++summary_.kept_cells;
          } else {
            planned.cells.push_back(std::move(cell));
          }
        }
        const uint64_t tokens = context + span.length + (inputs_.bos ? 1 : 0);
        if (!planned.cells.empty()) total_tokens_ += tokens * (planned.cells.size() + 1);
        plan.push_back(std::move(planned));
      }
    }
    return plan;
  }

  Status RunSpan(const PlannedSpan& planned) {
    KVANT_ASSIGN_OR_RETURN(
        const SpanTokens tokens,
        CutSpan(inputs_.tokens, {planned.span.end, planned.span.length, planned.context}, inputs_.bos));
    KVANT_ASSIGN_OR_RETURN(const Policy reference_policy, ParsePolicy(spec_.reference));
    auto reference = Prefill(reference_policy, tokens, spec_.chunk, Label("reference", planned));
    if (summary_.stopped) return {};
    if (!reference) return tl::unexpected<Error>(reference.error());
    for (const PlannedCell& cell : planned.cells) {
      CellRecord record = Measure(cell, planned, tokens, *reference);
      if (summary_.stopped) return {};
      ++done_cells_;
      ++summary_.new_cells;
      if (record.status == CellStatus::kFailed) ++summary_.failed_cells;
      KVANT_ASSIGN_OR_RETURN([[maybe_unused]] const bool stored, store_.PutCell(hash_, record));
      Report(Label(cell.key.arm, planned));
    }
    return {};
  }

  CellRecord Measure(const PlannedCell& cell, const PlannedSpan& planned, const SpanTokens& tokens,
                     const PrefillRun& reference) {
    CellRecord record;
    record.key = cell.key;
    record.kvant_version = kVersion;
    record.cpu_target = ActiveTarget();
    record.threads = pool_.threads();
    const auto fail = [&](const std::string& reason) {
      record.status = CellStatus::kFailed;
      record.reason = reason;
      record.date = DateUtc();
      return record;
    };
    auto run = Prefill(cell.policy, tokens, cell.key.chunk, Label(cell.key.arm, planned));
    if (!run) return fail(run.error().message);
    record.seconds = run->seconds;
    record.tokens_per_second = static_cast<double>(tokens.tokens.size()) / run->seconds;
    record.bytes_k = run->bytes.k.total();
    record.bytes_v = run->bytes.v.total();
    record.values_k = run->bytes.k.values;
    record.values_v = run->bytes.v.values;
    record.rows_exact = run->rows_exact;
    record.rows_quantized = run->rows_quantized;
    record.saturated = run->stats.saturated + run->stats.non_finite;
    record.cache_hash = run->cache_hash;
    const auto scored = std::span(tokens.tokens).last(tokens.scored);
    auto divergence = Compare(transformer_, pool_, reference.hidden.data(), run->hidden.data(), scored);
    if (!divergence) return fail(divergence.error().message);
    record.tokens.kl = std::move(divergence->kl);
    record.tokens.nll = std::move(divergence->nll);
    record.tokens.ref_nll = std::move(divergence->ref_nll);
    record.tokens.agree = std::move(divergence->agree);
    FillFromTokens(&record);
    record.date = DateUtc();
    return record;
  }

  Result<PrefillRun> Prefill(const Policy& policy, const SpanTokens& tokens, uint64_t chunk, const std::string& what) {
    const size_t before = done_tokens_;
    auto run = RunPrefill(transformer_, policy, tokens, chunk, [&](size_t tokens_done) {
      done_tokens_ = before + tokens_done;
      Report(what);
      if (progress_.Cancelled()) summary_.stopped = true;
      return !summary_.stopped;
    });
    done_tokens_ = before + tokens.tokens.size();
    return run;
  }

  static std::string Label(const std::string& arm, const PlannedSpan& planned) {
    return fmt::format("{}, {} tokens before the span that ends at {}", arm, planned.context, planned.span.end);
  }

  void Report(const std::string& what) {
    ProgressUpdate update;
    update.what = what;
    update.done_tokens = done_tokens_;
    update.total_tokens = total_tokens_;
    update.done_cells = done_cells_;
    update.total_cells = summary_.total_cells;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    update.tokens_per_second = static_cast<double>(done_tokens_) / seconds;
    if (done_tokens_ < total_tokens_) {
      update.seconds_left = static_cast<double>(total_tokens_ - done_tokens_) / update.tokens_per_second;
    }
    progress_.Update(update);
  }

  const ExperimentSpec& spec_;
  const ExperimentInputs& inputs_;
  Transformer& transformer_;
  ThreadPool& pool_;
  ResultsStore& store_;
  ProgressSink& progress_;
  std::string hash_;
  RunSummary summary_;
  std::vector<CellKey> keys_;  // of all cells, in the order of the plan
  size_t done_cells_ = 0;
  size_t done_tokens_ = 0;
  size_t total_tokens_ = 0;
  std::chrono::steady_clock::time_point start_;
};

// "parsing is wrong there" as FILE:LINE:COLUMN: what the policy parser says.
std::string PolicyError(const ExperimentSpec& spec, const TextPlace& place, const std::string& message) {
  return fmt::format("{}: {}", PlaceText(spec, place), message);
}

}  // namespace

Status CheckAgainstModel(const ExperimentSpec& spec, const ModelConfig& config, const ExperimentInputs& inputs) {
  const std::vector<LayerShape> shapes = CacheShapes(config);
  std::vector<std::string> errors;
  const auto check_policy = [&](const std::string& text, const TextPlace& place) {
    const auto policy = ParsePolicy(text);
    if (!policy) return errors.push_back(PolicyError(spec, place, policy.error().message));
    const auto supported = Supports(*policy, shapes);
    if (!supported) errors.push_back(PolicyError(spec, place, supported.error().message));
  };
  if (spec.reference_place.line != 0) check_policy(spec.reference, spec.reference_place);
  for (const ArmSpec& arm : spec.arms) check_policy(arm.policy, arm.policy_place);
  const auto fit = CheckSpansFit(spec, inputs.tokens.size());
  if (!fit) errors.push_back(fit.error().message);
  for (const uint64_t context : spec.contexts) {
    for (const SpanSpec& span : spec.spans) {
      if (context + span.length + (inputs.bos ? 1 : 0) <= config.context_limit) continue;
      errors.push_back(fmt::format(
          "{}: a context of {} tokens and a span of {}{} exceed the {} tokens that model {} was "
          "trained for",
          spec.file_name, context, span.length, inputs.bos ? " and the BOS" : "", config.context_limit, config.name));
      break;
    }
  }
  if (!errors.empty()) return Fail("{}", fmt::join(errors, "\n"));
  return {};
}

Result<RunSummary> RunExperiment(const ExperimentSpec& spec, const std::string& spec_text,
                                 const ExperimentInputs& inputs, Transformer& transformer, ThreadPool& pool,
                                 ResultsStore& store, ProgressSink& progress) {
  return Runner(spec, inputs, transformer, pool, store, progress).Run(spec_text);
}

}  // namespace kvant
