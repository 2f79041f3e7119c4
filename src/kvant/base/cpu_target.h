// The SIMD target that kernels run on: it can be listed, printed and forced, and a forced run can prove what it used.
#pragma once

#include <string>
#include <vector>

#include "kvant/base/result.h"

namespace kvant {

// Compiled targets that this CPU supports, best first, e.g. {"AVX3", "AVX2", "SCALAR"}.
std::vector<std::string> SupportedTargets();

// The target that the next kernel call dispatches to.
std::string ActiveTarget();

// Restricts dispatch to one target by name; "" restores the best. Not thread-safe: call it when no kernel runs.
Status ForceTarget(const std::string& name);

}  // namespace kvant
