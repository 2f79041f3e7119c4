// kvant: finds the smallest KV cache that a model can afford on its user's own text.
#include <new>

#include "kvant/base/cpu_target.h"
#include "kvant/experiment/provenance.h"
#include "messages.h"
#include "verbs.h"

namespace {

// The library throws nothing of its own, but a cache may be larger than what this machine has to give.
kvant::Result<int> Perform(const kvant::Action& run) {
  try {
    return run();
  } catch (const std::bad_alloc&) {
    return kvant::Fail("there is not enough memory; take fewer tokens, a smaller policy or another machine");
  }
}

int Finish(int code) {
  if (kvant::OutputArrived()) return code;
  kvant::PrintMessage("the output could not be written");
  return kvant::kExitFailure;
}

}  // namespace

int main(int argc, char** argv) {
  kvant::GuardStandardStreams();
  kvant::ExplainBusErrors();
  const kvant::Environment environment = kvant::ReadEnvironment();
  CLI::App app("kvant measures what each way of storing a KV cache costs on your model and your text.", "kvant");
  app.set_version_flag("--version", std::string("kvant ") + kvant::kVersion);
  app.require_subcommand(1);
  app.footer(
      "Start with: kvant run experiments/keys-vs-values.toml\nEnvironment: KVANT_TEXTS (folder of texts), "
      "KVANT_CACHE (default ~/.cache/kvant), KVANT_TARGET (SIMD target to force, see kvant doctor)");
  kvant::Action run;
  kvant::AddRun(app, environment, run);
  kvant::AddEval(app, environment, run);
  kvant::AddTokenize(app, environment, run);
  kvant::AddCodecs(app, environment, run);
  kvant::AddDoctor(app, environment, run);
  kvant::AddBench(app, environment, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // Help and version are "errors" with exit code 0.
    if (error.get_exit_code() == 0) return Finish(app.exit(error));
    kvant::PrintUsageError(app, error);
    return kvant::kExitUsage;
  }
  if (!environment.target.empty()) {
    const auto forced = kvant::ForceTarget(environment.target);
    if (!forced) {
      kvant::PrintMessage("KVANT_TARGET: " + forced.error().message);
      return kvant::kExitUsage;
    }
  }
  const auto code = Perform(run);
  if (code) return Finish(*code);
  kvant::PrintMessage(code.error().message);
  return kvant::kExitFailure;
}
