// kvant doctor: what this machine runs and what is installed.
#include <cstdio>
#include <filesystem>

#include "kvant/base/cpu_target.h"
#include "kvant/experiment/provenance.h"
#include "kvant/model/catalog.h"
#include "verbs.h"

namespace kvant {
namespace {

Result<int> Doctor(const Environment& environment) {
  std::string targets;
  for (const std::string& target : SupportedTargets())
    targets += fmt::format("{}{}", targets.empty() ? "" : ", ", target);
  std::puts(fmt::format("kvant {}", kVersion).c_str());
  std::puts(fmt::format("processor   {}", CpuModel()).c_str());
  std::puts(fmt::format("threads     {}", AvailableThreads()).c_str());
  std::puts(fmt::format("SIMD        {} is active; this build and processor have {} (force one with KVANT_TARGET)",
                        ActiveTarget(), targets)
                .c_str());
  std::puts("attention   prefill: every K format with every V format runs through decoded tiles (f32 products)");
  std::puts("\nmodels");
  for (const KnownModel& model : KnownModels()) {
    const auto path = ResolveModel(std::string(model.name), environment.models_folder);
    std::puts(fmt::format("  {:<16} {}: {}", model.name, model.about, path ? *path : path.error().message).c_str());
  }
  std::puts("\ntexts");
  for (const KnownText& text : KnownTexts()) {
    const auto loaded = LoadText(std::string(text.name), environment.texts);
    std::puts(fmt::format("  {:<16} {}: {}", text.name, text.about,
                          loaded ? fmt::format("{} bytes", loaded->size()) : loaded.error().message)
                  .c_str());
  }
  return kExitOk;
}

}  // namespace

void AddDoctor(CLI::App& app, const Environment& environment, Action& run) {
  CLI::App* verb = app.add_subcommand("doctor", "what this machine runs, and which models and texts are there");
  verb->callback([&environment, &run] { run = [&environment] { return Doctor(environment); }; });
}

}  // namespace kvant
