// How fast prefill is, against the machine's own matrix product and against the f32 cache, in one interleaved run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kvant/base/result.h"
#include "kvant/cache/policy.h"
#include "kvant/model/transformer.h"

namespace kvant {

struct PrefillBenchOptions {
  std::vector<Policy> arms;    // the first is what the others' times are compared with
  std::vector<size_t> depths;  // tokens in the cache before the timed chunk
  size_t chunk = 512;          // tokens timed
  size_t repetitions = 5;
};

// One arm at one depth.
struct PrefillBenchRow {
  size_t arm = 0;
  size_t depth = 0;
  double seconds = 0;  // median of the chunk's time
  double spread = 0;   // (max - min) / median
  double tokens_per_second = 0;
  double flop = 0;  // of the chunk, see TrueFlop
  double gflop_per_second = 0;
  double sgemm_share = 0;    // median over repetitions of gflop_per_second / that repetition's sgemm rate
  double time_ratio = 0;     // median over repetitions of this arm's time / the first arm's
  size_t scratch_bytes = 0;  // activations and worker scratch
};

struct PrefillBenchResult {
  double sgemm_gflop_per_second = 0;  // median over repetitions
  std::vector<PrefillBenchRow> rows;
};

// What a chunk of `tokens` after `depth` needs: two FLOP per weight of the layers' matrices and token, and
// 2 * (k_head_dim + v_head_dim) per query head and visible key. The head is not run: no row of a prefill needs it.
double TrueFlop(const ModelConfig& config, size_t depth, size_t tokens);

// FLOP/s of oneDNN's sgemm with one caller per thread of the pool, each single-threaded: the best of a large square and
// of the model's own shapes, since its rate depends on the shape.
double SgemmFlopPerSecond(const ModelConfig& config, size_t rows, ThreadPool& pool);

// The cache is filled to each depth with random keys and values, which costs no model run; tokens are random ids. Every
// repetition times sgemm and then every depth and arm in turn, so drift of the machine hits all alike.
Result<PrefillBenchResult> BenchPrefill(Transformer& transformer, ThreadPool& pool, const PrefillBenchOptions& options,
                                        const std::function<void(const std::string&)>& on_progress);

}  // namespace kvant
