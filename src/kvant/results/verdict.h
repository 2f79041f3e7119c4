// Bars applied to results.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvant/results/cell.h"
#include "kvant/results/spec.h"

namespace kvant {

enum class Verdict : uint8_t { kPass, kNotMet, kMissing, kMistrusted };

std::string_view ToText(Verdict verdict);  // "PASS", "NOT MET", "MISSING", "MISTRUSTED"

struct BarVerdict {
  std::string name;
  std::string claim_text;
  Verdict verdict = Verdict::kMissing;
  std::string sentence;  // the numbers behind it: values, counts, the ratio reached, or what is missing or suspect
};

// MISSING     a cell that the claim needs is absent or failed, or the spec asks for a floor and no floor cell exists.
// MISTRUSTED  the comparison could not have failed, or cannot be told from noise:
//             - both sides are the same cells, or different arms stored the same bytes (equal cache hash), or gave the
//               same KL and loss to the last bit, or both values are exactly 0;
//             - an arm with KL exactly 0 is compared with a number or with the reference: it changed nothing;
//             - with a floor: the sides (factors applied) differ by less than three times the floor. Counted clauses
//               stay decided as long as the undecided comparisons cannot change the outcome.
// NOT MET, PASS  otherwise.
// A conjunction takes the first of MISSING, MISTRUSTED, NOT MET, PASS that one of its clauses has: a bar is not judged
// on half of its cells. The sentence then is of the clauses with that verdict.
BarVerdict JudgeBar(const ExperimentSpec& spec, const BarSpec& bar, std::span<const CellRecord> cells);

// All bars in the order of the spec.
std::vector<BarVerdict> JudgeBars(const ExperimentSpec& spec, std::span<const CellRecord> cells);

}  // namespace kvant
