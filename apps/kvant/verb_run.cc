// kvant run: an experiment from its file to its verdict.
#include <cstdio>
#include <filesystem>

#include "kvant/base/sha256.h"
#include "kvant/experiment/runner.h"
#include "kvant/io/mapped_file.h"
#include "kvant/report/csv.h"
#include "kvant/report/table.h"
#include "messages.h"
#include "progress.h"
#include "session.h"
#include "verbs.h"

namespace kvant {
namespace {

struct RunArguments {
  std::string spec;
  std::string model;  // overrides the spec's
  std::string text;
  std::string out;
  size_t threads = 0;
  bool smoke = false;
  bool strict = false;
  bool markdown = false;
};

Result<std::string> ReadSpecFile(const std::string& path) {
  KVANT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size());
}

std::string KeptText(const RunSummary& summary) {
  if (summary.kept_cells == 0) return "";
  if (summary.kept_cells == summary.total_cells)
    return fmt::format("All {} cells were there already: nothing was measured.\n\n", summary.total_cells);
  return fmt::format("{} of {} cells were there already and were not measured again.\n\n", summary.kept_cells,
                     summary.total_cells);
}

Result<int> RunVerb(const RunArguments& arguments, const Environment& environment) {
  KVANT_ASSIGN_OR_RETURN(const std::string spec_text, ReadSpecFile(arguments.spec));
  KVANT_ASSIGN_OR_RETURN(ExperimentSpec spec, ParseExperiment(spec_text, arguments.spec));
  if (!arguments.model.empty()) spec.model = arguments.model;
  if (!arguments.text.empty()) spec.text = arguments.text;
  if (arguments.smoke) spec = SmokeVariant(spec);

  KVANT_ASSIGN_OR_RETURN(LoadedModel loaded, LoadModel({spec.model, arguments.threads}, environment));
  KVANT_ASSIGN_OR_RETURN(const std::string text, LoadText(spec.text, environment.texts));
  ExperimentInputs inputs;
  inputs.tokens = loaded.tokenizer.Encode(text);
  inputs.bos = loaded.bos;
  KVANT_RETURN_IF_ERROR(CheckAgainstModel(spec, loaded.model.config(), inputs));
  KVANT_ASSIGN_OR_RETURN(inputs.model_hash, Sha256OfFile(loaded.path));
  inputs.text_hash = Sha256Hex(std::as_bytes(std::span(text)));

  const std::string folder = arguments.out.empty() ? "results/" + spec.name : arguments.out;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return Fail("{}: the folder for results cannot be made ({}); name another with --out", folder, error.message());
  KVANT_ASSIGN_OR_RETURN(ResultsStore store, ResultsStore::Open(folder + "/results.db", OpenMode::kCreate));

  std::puts(fmt::format("{}{}: {}", spec.name, arguments.smoke ? " (smoke)" : "", spec.question).c_str());
  std::puts(fmt::format("{} ({}), text {} of {} tokens; arms: {}, spans: {}, contexts: {}\n",
                        loaded.model.config().name, spec.model, spec.text, inputs.tokens.size(), spec.arms.size(),
                        spec.spans.size(), spec.contexts.size())
                .c_str());
  std::fflush(stdout);
  KVANT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> threads, ThreadPool::Create(ThreadsOf(arguments.threads)));
  ThreadPool& pool = *threads;
  Transformer transformer(loaded.model, pool);
  TerminalProgress progress;
  StopOnSignals();
  const auto summary = RunExperiment(spec, spec_text, inputs, transformer, pool, store, progress);
  progress.Finish();
  if (!summary) return tl::unexpected<Error>(summary.error());
  // A smoke run does not replace what the experiment has measured.
  const std::string csv = folder + (arguments.smoke ? "/smoke.csv" : "/results.csv");
  KVANT_RETURN_IF_ERROR(WriteTextFile(csv, CsvOfCells(spec.name, summary->cells)));
  const auto places = fmt::format("{} (one row per cell)\n{}/results.db (per-token values too)", csv, folder);
  if (summary->stopped) {
    std::puts(fmt::format("Stopped with {} new cells kept; run the same command again to go on.\n{}",
                          summary->new_cells, places)
                  .c_str());
    return kExitStopped;
  }

  std::fputs(KeptText(*summary).c_str(), stdout);
  if (!arguments.markdown) std::puts(TableCaption(spec).c_str());
  std::puts((arguments.markdown ? ResultsMarkdown(spec, summary->cells) : ResultsTable(spec, summary->cells)).c_str());
  for (const CellRecord& cell : summary->cells) {
    if (cell.status == CellStatus::kFailed)
      std::puts(fmt::format("failed: {}: {}", Describe(cell.key), cell.reason).c_str());
  }
  std::fputs(WarningsText(summary->cells).c_str(), stdout);
  const std::vector<BarVerdict> verdicts = JudgeBars(spec, summary->cells);
  std::puts((arguments.markdown ? VerdictMarkdown(verdicts) : VerdictText(verdicts)).c_str());
  std::puts(places.c_str());
  if (summary->failed_cells > 0) {
    PrintMessage(fmt::format("{} of {} cells failed, for the reasons above; the same command tries them again",
                             summary->failed_cells, summary->total_cells));
    return kExitFailure;
  }
  for (const BarVerdict& verdict : verdicts) {
    if (arguments.strict && verdict.verdict != Verdict::kPass) return kExitBarNotMet;
  }
  return kExitOk;
}

}  // namespace

void AddRun(CLI::App& app, const Environment& environment, Action& run) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* verb =
      app.add_subcommand("run", "an experiment from its file: measures, stores, judges; resumes where it was stopped");
  verb->add_option("experiment", arguments->spec, "a TOML file such as experiments/keys-vs-values.toml")->required();
  verb->add_option("-m,--model", arguments->model, "in place of the file's model");
  verb->add_option("-f,--text", arguments->text, "in place of the file's text");
  verb->add_option("-o,--out", arguments->out,
                   "folder of results.db and results.csv (smoke.csv with --smoke; default results/NAME)");
  AddThreads(*verb, arguments->threads);
  verb->add_flag("--smoke", arguments->smoke, "one tiny cell per arm, to see that everything works");
  verb->add_flag("--markdown", arguments->markdown, "table and verdicts in Markdown, for pages such as the README");
  verb->add_flag("--strict", arguments->strict, "exit with 3 unless every bar is a PASS");
  verb->callback(
      [arguments, &environment, &run] { run = [=, &environment] { return RunVerb(*arguments, environment); }; });
}

}  // namespace kvant
