// Values expanded per second and core, per type and SIMD target: dequantize_bench
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kvant/base/check.h"
#include "kvant/base/cpu_target.h"
#include "kvant/base/half.h"
#include "kvant/base/rng.h"
#include "kvant/io/dequantize.h"

namespace kvant {
namespace {

// A panel as the matrix product expands it: rows of 1536 values, output within the L2 cache.
constexpr size_t kRowElems = 1536;
constexpr size_t kRows = 32;

void Run(benchmark::State& state, GgmlType type, const std::string& target) {
  KVANT_CHECK(ForceTarget(target).has_value());
  const size_t row_bytes = GgmlBytes(type, kRowElems);
  std::vector<std::byte> panel(row_bytes * kRows);
  const CounterRng rng(1);
  // Bytes below 0x20 keep the exponents of halves and floats small: no infinity and no NaN in the timing.
  for (size_t index = 0; index < panel.size(); ++index) panel[index] = static_cast<std::byte>(rng.Bits(index) & 0x1f);
  std::vector<float> out(kRowElems * kRows);
  for (auto _ : state) {
    for (size_t row = 0; row < kRows; ++row) {
      DequantizeRow(type, panel.data() + row * row_bytes, kRowElems, out.data() + row * kRowElems);
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRowElems * kRows));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * panel.size()));
  KVANT_CHECK(ActiveTarget() == target);
  KVANT_CHECK(ForceTarget("").has_value());
}

const bool kRegistered = [] {
  for (const std::string& target : SupportedTargets()) {
    for (uint32_t id = 0; id < 64; ++id) {
      const GgmlTypeInfo* info = FindGgmlType(id);
      if (info == nullptr || !info->decodable) continue;
      benchmark::RegisterBenchmark((std::string(info->name) + "/" + target).c_str(), Run, info->type, target);
    }
  }
  return true;
}();

}  // namespace
}  // namespace kvant
