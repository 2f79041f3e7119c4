#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/base/cpu_target.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kvant/base/cpu_target.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
// Runs through the same dispatch as every kernel, so it names the target that kernels really use.
int64_t CompiledTarget() { return HWY_TARGET; }
}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(CompiledTarget);

namespace {
// foreach_target.h exports one function per compiled target; HWY_SUPPORTED_TARGETS is this CPU's share of them.
std::vector<int64_t> Targets() {
  std::vector<int64_t> targets;
  hwy::SetSupportedTargetsForTest(0);
  int64_t remaining = hwy::SupportedTargets() & HWY_TARGETS;
  while (remaining != 0) {
    const int64_t lowest = remaining & -remaining;  // a lower bit is a better target
    targets.push_back(lowest);
    remaining &= ~lowest;
  }
  return targets;
}
int64_t forced = 0;
}  // namespace

std::vector<std::string> SupportedTargets() {
  std::vector<std::string> names;
  for (const int64_t target : Targets()) names.emplace_back(hwy::TargetName(target));
  hwy::SetSupportedTargetsForTest(forced);
  if (forced != 0) hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return names;
}

std::string ActiveTarget() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(CompiledTarget)()); }

Status ForceTarget(const std::string& name) {
  int64_t mask = 0;
  std::string known;
  for (const int64_t target : Targets()) {
    if (name == hwy::TargetName(target)) mask = target;
    known += known.empty() ? "" : ", ";
    known += hwy::TargetName(target);
  }
  if (mask == 0 && !name.empty()) {
    hwy::SetSupportedTargetsForTest(forced);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return Fail("SIMD target \"{}\" is not one of those that this build and CPU have: {}", name, known);
  }
  forced = mask;
  hwy::SetSupportedTargetsForTest(forced);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return {};
}

}  // namespace kvant
#endif  // HWY_ONCE
