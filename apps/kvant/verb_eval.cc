// kvant eval: the cost of a few policies on one span, without an experiment file.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "kvant/eval/divergence.h"
#include "kvant/eval/prefill_run.h"
#include "kvant/metrics/summary.h"
#include "messages.h"
#include "progress.h"
#include "session.h"
#include "verbs.h"

namespace kvant {
namespace {

struct EvalArguments {
  ModelArguments model;
  std::string text;
  std::vector<std::string> arms;
  std::string reference = "k=f32 v=f32";
  size_t context = 1024;
  size_t score = 256;
  size_t span_end = 0;  // 0: context + score
  size_t chunk = kDefaultChunk;
  size_t realizations = 0;
  bool json = false;
};

// Progress over the runs of a command: the reference, then every arm with its realizations.
class EvalProgress {
 public:
  EvalProgress(size_t tokens_per_run, size_t runs) : tokens_per_run_(tokens_per_run), runs_(runs) {}

  // For the next run.
  ChunkCallback Next(const std::string& what) {
    const size_t before = tokens_per_run_ * started_++;
    return [this, what, before](size_t done) {
      ProgressUpdate update;
      update.what = what;
      update.done_tokens = before + done;
      update.total_tokens = tokens_per_run_ * runs_;
      update.done_cells = started_ - 1;
      update.total_cells = runs_;
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
      if (seconds < kSilentSeconds) return !sink_.Cancelled();
      update.tokens_per_second = static_cast<double>(update.done_tokens) / seconds;
      update.seconds_left = static_cast<double>(update.total_tokens - update.done_tokens) / update.tokens_per_second;
      sink_.Update(update);
      return !sink_.Cancelled();
    };
  }
  void Finish() const { sink_.Finish(); }

 private:
  static constexpr double kSilentSeconds = 2;  // shorter commands need no progress

  size_t tokens_per_run_;
  size_t runs_;
  size_t started_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  TerminalProgress sink_;
};

// NaN has no JSON form: null, as for an undefined number anywhere else.
nlohmann::ordered_json Number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

void PrintJson(const EvalArguments& arguments, const Policy& policy, const PrefillRun& run,
               const Divergence& divergence, size_t span_end, const std::vector<double>& realizations) {
  nlohmann::ordered_json line;
  line["arm"] = policy.text;
  line["k"] = ToText(policy.k);
  line["v"] = ToText(policy.v);
  line["context"] = arguments.context;
  line["span_end"] = span_end;
  line["scored"] = run.scored;
  line["mode"] = "prefill";
  line["mean_kl"] = Number(divergence.MeanKl());
  line["p99_kl"] = Number(divergence.P99Kl());
  line["top1"] = Number(divergence.Top1());
  line["ppl"] = Number(divergence.Ppl());
  line["ref_ppl"] = Number(divergence.RefPpl());
  line["bpv_k"] = BitsPerValue(run.bytes.k);
  line["bpv_v"] = BitsPerValue(run.bytes.v);
  line["bytes_k"] = run.bytes.k.total();
  line["bytes_v"] = run.bytes.v.total();
  line["seconds"] = run.seconds;
  line["reference"] = arguments.reference;
  line["chunk"] = arguments.chunk;
  line["rows_exact"] = run.rows_exact;
  line["rows_quantized"] = run.rows_quantized;
  line["saturated"] = run.stats.saturated;
  line["non_finite"] = run.stats.non_finite;
  line["cache_hash"] = run.cache_hash;
  if (!realizations.empty()) line["mean_kl_realizations"] = realizations;
  // Policies and names may hold any bytes: what is not UTF-8 is replaced rather than thrown at.
  std::puts(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

void PrintRow(const Policy& policy, const PrefillRun& run, const Divergence& divergence,
              const std::vector<double>& realizations) {
  std::puts(fmt::format("{:<44} {:>7.4f} {:>7.4f} {:>10.6f} {:>9.4f} {:>7.2f} {:>9.4f} {:>8.2f}", policy.text,
                        BitsPerValue(run.bytes.k), BitsPerValue(run.bytes.v), divergence.MeanKl(), divergence.P99Kl(),
                        100 * divergence.Top1(), divergence.Ppl(), run.seconds)
                .c_str());
  if (!realizations.empty()) {
    const auto [low, high] = std::minmax_element(realizations.begin(), realizations.end());
    std::puts(fmt::format("{:<44} mean KL over {} other outcomes of rounding: {:.6f} ({:.6f} to {:.6f})", "",
                          realizations.size(), Mean(realizations), *low, *high)
                  .c_str());
  }
  if (run.stats.saturated + run.stats.non_finite > 0) {
    std::puts(fmt::format("{:<44} warning: {} values saturated and {} were not finite, of {}", "", run.stats.saturated,
                          run.stats.non_finite, run.stats.values)
                  .c_str());
  }
  std::fflush(stdout);
}

// Mean KL of the same arm under other outcomes of rounding: seeds 1 to `arguments.realizations`.
Result<std::vector<double>> Realizations(const EvalArguments& arguments, Transformer& transformer, ThreadPool& pool,
                                         const Policy& policy, const SpanTokens& span, const PrefillRun& reference,
                                         EvalProgress& progress) {
  std::vector<double> mean_kls;
  for (size_t seed = 1; seed <= arguments.realizations; ++seed) {
    transformer.SetRoundingNoise(seed);
    auto run = RunPrefill(transformer, policy, span, arguments.chunk, progress.Next(policy.text));
    transformer.SetRoundingNoise(std::nullopt);
    if (!run) return tl::unexpected<Error>(run.error());
    KVANT_ASSIGN_OR_RETURN(const Divergence divergence,
                           Compare(transformer, pool, reference.hidden.data(), run->hidden.data(),
                                   std::span(span.tokens).last(span.scored)));
    mean_kls.push_back(divergence.MeanKl());
  }
  return mean_kls;
}

Result<int> Eval(const EvalArguments& arguments, const Environment& environment) {
  // All arms are checked before anything runs.
  std::vector<Policy> policies;
  for (const std::string& arm : arguments.arms) {
    KVANT_ASSIGN_OR_RETURN(Policy policy, ParsePolicy(arm));
    policies.push_back(std::move(policy));
  }
  KVANT_ASSIGN_OR_RETURN(const Policy reference_policy, ParsePolicy(arguments.reference));
  KVANT_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel(arguments.model, environment));
  const ModelConfig& config = loaded.model.config();
  for (const Policy& policy : policies) KVANT_RETURN_IF_ERROR(Supports(policy, CacheShapes(config)));
  KVANT_RETURN_IF_ERROR(Supports(reference_policy, CacheShapes(config)));
  KVANT_ASSIGN_OR_RETURN(const std::string text, LoadText(arguments.text, environment.texts));
  const std::vector<int32_t> tokens = loaded.tokenizer.Encode(text);
  const size_t span_end = arguments.span_end == 0 ? arguments.context + arguments.score : arguments.span_end;
  KVANT_ASSIGN_OR_RETURN(const SpanTokens span,
                         CutSpan(tokens, {span_end, arguments.score, arguments.context}, loaded.bos));
  if (span.tokens.size() > config.context_limit) {
    PrintMessage(fmt::format("warning: {} tokens are more than the {} that this model was trained for",
                             span.tokens.size(), config.context_limit));
  }

  KVANT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> threads,
                         ThreadPool::Create(ThreadsOf(arguments.model.threads)));
  ThreadPool& pool = *threads;
  Transformer transformer(loaded.model, pool);
  StopOnSignals();
  EvalProgress progress(span.tokens.size(), 1 + policies.size() * (1 + arguments.realizations));
  KVANT_ASSIGN_OR_RETURN(const PrefillRun reference,
                         RunPrefill(transformer, reference_policy, span, arguments.chunk, progress.Next("reference")));
  const auto scored = std::span(span.tokens).last(span.scored);
  if (!arguments.json) {
    std::puts(
        fmt::format(
            "{} on {}: {} tokens scored before token {}, after {} of context; reference {}\n"
            "KL(reference || arm) in nats; ppl over the targets inside the span; bits per value from stored bytes",
            config.name, arguments.text, arguments.score, span_end, arguments.context, arguments.reference)
            .c_str());
    std::puts(fmt::format("{:<44} {:>7} {:>7} {:>10} {:>9} {:>7} {:>9} {:>8}", "arm", "K bits", "V bits", "mean KL",
                          "p99 KL", "top-1 %", "ppl", "seconds")
                  .c_str());
  }
  for (const Policy& policy : policies) {
    KVANT_ASSIGN_OR_RETURN(const PrefillRun run,
                           RunPrefill(transformer, policy, span, arguments.chunk, progress.Next(policy.text)));
    progress.Finish();
    KVANT_ASSIGN_OR_RETURN(const Divergence divergence,
                           Compare(transformer, pool, reference.hidden.data(), run.hidden.data(), scored));
    KVANT_ASSIGN_OR_RETURN(const std::vector<double> realizations,
                           Realizations(arguments, transformer, pool, policy, span, reference, progress));
    progress.Finish();
    if (arguments.json) {
      PrintJson(arguments, policy, run, divergence, span_end, realizations);
    } else {
      PrintRow(policy, run, divergence, realizations);
    }
  }
  return kExitOk;
}

}  // namespace

void AddEval(CLI::App& app, const Environment& environment, Action& run) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* verb = app.add_subcommand("eval", "what a few policies cost on one span of a text");
  AddModelArguments(*verb, arguments->model);
  verb->add_option("-f,--text", arguments->text, "a text file or a known name (kvant doctor)")->required();
  verb->add_option("--arm", arguments->arms, "a policy, e.g. \"k=q4_0 v=f32\"; may be given several times")
      ->required()
      ->take_all()
      ->expected(1);
  verb->add_option("--reference", arguments->reference, "the policy that arms are compared with")
      ->capture_default_str();
  const CLI::Validator tokens = WholeNumber(1, size_t{1} << 31);
  verb->add_option("--span-end", arguments->span_end,
                   "token of the text before which the span ends (default: context + score)")
      ->check(tokens);
  verb->add_option("--score", arguments->score, "tokens scored: the last ones before --span-end")
      ->check(tokens)
      ->capture_default_str();
  verb->add_option("--context", arguments->context, "tokens fed before the scored ones")
      ->check(WholeNumber(0, size_t{1} << 31))
      ->capture_default_str();
  verb->add_option("--chunk", arguments->chunk, "tokens of one prefill chunk")
      ->check(WholeNumber(1, 65536))
      ->capture_default_str();
  verb->add_option("--realizations", arguments->realizations,
                   "run each arm this often again under other outcomes of rounding, to see how far they scatter")
      ->check(WholeNumber(0, 1000))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line and arm");
  verb->callback(
      [arguments, &environment, &run] { run = [=, &environment] { return Eval(*arguments, environment); }; });
}

}  // namespace kvant
