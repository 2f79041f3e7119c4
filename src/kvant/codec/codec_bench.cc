// Encode and decode speed of every family: packed bytes per second (the bytes_per_second column) and values per second
// (items_per_second). One head of 128 channels, 128 tokens: the tile that attention decodes at once, 64 KiB of f32, so
// numbers include the traffic to L2. --benchmark_filter=Decode/q4_0
#include <map>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "kvant/base/cpu_target.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/test_rows.h"
#include "kvant/codec/transform.h"

namespace kvant {
namespace {

constexpr size_t kHeadDim = 128;
constexpr size_t kTokens = 128;

void SetCounters(benchmark::State& state, size_t unit_bytes) {
  const int64_t units = static_cast<int64_t>(state.iterations() * kTokens);
  state.SetBytesProcessed(units * static_cast<int64_t>(unit_bytes));
  state.SetItemsProcessed(units * static_cast<int64_t>(kHeadDim));
}

void Encode(benchmark::State& state, const CodecSpec& spec) {
  const size_t unit_bytes = UnitBytes(spec, kHeadDim);
  const std::vector<float> x = test::GaussianRow(kTokens * kHeadDim, 1);
  std::vector<std::byte> packed(kTokens * unit_bytes);
  EncodeStats stats;
  for (auto _ : state) {
    for (size_t token = 0; token < kTokens; ++token) {
      EncodeUnit(spec, x.data() + token * kHeadDim, kHeadDim, packed.data() + token * unit_bytes, &stats);
    }
    benchmark::DoNotOptimize(packed.data());
    benchmark::ClobberMemory();
  }
  SetCounters(state, unit_bytes);
}

void Decode(benchmark::State& state, const CodecSpec& spec) {
  const size_t unit_bytes = UnitBytes(spec, kHeadDim);
  const std::vector<float> x = test::GaussianRow(kTokens * kHeadDim, 2);
  std::vector<std::byte> packed(kTokens * unit_bytes);
  for (size_t token = 0; token < kTokens; ++token) {
    EncodeUnit(spec, x.data() + token * kHeadDim, kHeadDim, packed.data() + token * unit_bytes, nullptr);
  }
  std::vector<float> out(kTokens * kHeadDim);
  const UnitRun run{packed.data(), unit_bytes, kTokens, kHeadDim, 0, kHeadDim};
  for (auto _ : state) {
    DecodeUnits(spec, run, out.data(), kHeadDim);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  SetCounters(state, unit_bytes);
}

void Hadamard(benchmark::State& state) {
  const size_t head_dim = static_cast<size_t>(state.range(0));
  std::vector<float> x = test::GaussianRow(kTokens * head_dim, 3);
  for (auto _ : state) {
    ApplyTransforms({TransformKind::kHadamard}, x.data(), kTokens, head_dim, head_dim);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kTokens * head_dim));
}
BENCHMARK(Hadamard)->Arg(64)->Arg(128)->Arg(256);

// One group size is enough per width, and all group sizes at 4 bits.
const bool kRegistered = [] {
  benchmark::AddCustomContext("simd_target", ActiveTarget());
  for (const CodecSpec& spec : AllCodecs()) {
    if (spec.group != kGroupNone && spec.group != 32 && spec.bits != 4) continue;
    if (spec.symmetric) continue;
    benchmark::RegisterBenchmark(("Encode/" + ToText(spec)).c_str(), Encode, spec);
    benchmark::RegisterBenchmark(("Decode/" + ToText(spec)).c_str(), Decode, spec);
  }
  return true;
}();

}  // namespace
}  // namespace kvant
