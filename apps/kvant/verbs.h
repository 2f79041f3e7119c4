// One file per verb: it declares its arguments, and its callback parses, calls the library and prints.
#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "environment.h"
#include "kvant/base/result.h"

namespace kvant {

// What `kvant` ends with: 0 done, 1 the world was wrong, 2 wrong arguments, 3 a bar was not met (kvant run --strict),
// 130 stopped by Ctrl-C.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitBarNotMet = 3;
inline constexpr int kExitStopped = 130;

// A verb sets `run`; main calls it once all arguments are known to be good.
using Action = std::function<Result<int>()>;

void AddRun(CLI::App& app, const Environment& environment, Action& run);
void AddEval(CLI::App& app, const Environment& environment, Action& run);
void AddTokenize(CLI::App& app, const Environment& environment, Action& run);
void AddCodecs(CLI::App& app, const Environment& environment, Action& run);
void AddDoctor(CLI::App& app, const Environment& environment, Action& run);
void AddBench(CLI::App& app, const Environment& environment, Action& run);

}  // namespace kvant
