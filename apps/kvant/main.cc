// kvant: finds the smallest KV cache that a model can afford on its user's own text.
#include <cstdio>

#include "kvant/base/cpu_target.h"
#include "kvant/experiment/provenance.h"
#include "verbs.h"

int main(int argc, char** argv) {
  const kvant::Environment environment = kvant::ReadEnvironment();
  CLI::App app("kvant measures what each way of storing a KV cache costs on your model and your text.");
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
    const bool asked_for_help = error.get_exit_code() == 0;
    const int code = app.exit(error);
    return asked_for_help ? code : kvant::kExitUsage;
  }
  if (!environment.target.empty()) {
    const auto forced = kvant::ForceTarget(environment.target);
    if (!forced) {
      std::fprintf(stderr, "kvant: KVANT_TARGET: %s\n", forced.error().message.c_str());
      return kvant::kExitUsage;
    }
  }
  const auto code = run();
  if (!code) {
    std::fprintf(stderr, "kvant: %s\n", code.error().message.c_str());
    return kvant::kExitFailure;
  }
  // A full disk or a closed pipe shows when the last bytes are written: it must not look like success.
  if (std::fflush(stdout) != 0) {
    std::fprintf(stderr, "kvant: the output could not be written\n");
    return kvant::kExitFailure;
  }
  return *code;
}
