#include "kvant/eval/prefill_bench.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <dnnl.h>

#include "kvant/base/rng.h"
#include "kvant/metrics/summary.h"

namespace kvant {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double Median(const std::vector<double>& values) { return Percentile(values, 50); }

// All workers multiply [rows x depth] by [columns x depth]^T at the same time, each in its own memory.
double SgemmRate(size_t rows, size_t columns, size_t depth, ThreadPool& pool) {
  constexpr double kSeconds = 0.1;
  std::vector<double> rates(pool.threads(), 0.0);
  pool.For(pool.threads(), [&](size_t task, size_t) {
    omp_set_num_threads(1);
    std::vector<float> x(rows * depth, 0.5f);
    std::vector<float> w(columns * depth, 0.25f);
    std::vector<float> y(rows * columns);
    const auto multiply = [&] {
      const auto m = static_cast<dnnl_dim_t>(rows);
      const auto n = static_cast<dnnl_dim_t>(columns);
      const auto k = static_cast<dnnl_dim_t>(depth);
      dnnl_sgemm('N', 'T', m, n, k, 1.0f, x.data(), k, w.data(), k, 0.0f, y.data(), n);
    };
    multiply();
    const auto start = Clock::now();
    size_t products = 0;
    do {
      multiply();
      ++products;
    } while (SecondsSince(start) < kSeconds);
    rates[task] = 2.0 * static_cast<double>(rows * columns * depth * products) / SecondsSince(start);
  });
  return Sum(rates);
}

// A cache that holds `tokens` random rows.
Result<SequenceCache> FilledCache(const Policy& policy, const ModelConfig& config, size_t tokens, ThreadPool& pool) {
  const std::vector<LayerShape> shapes = CacheShapes(config);
  KVANT_ASSIGN_OR_RETURN(SequenceCache cache, SequenceCache::Create(policy, shapes));
  constexpr size_t kFillTokens = 512;
  for (size_t layer = 0; layer < shapes.size(); ++layer) {
    const size_t k_width = shapes[layer].kv_heads * shapes[layer].k_head_dim;
    const size_t v_width = shapes[layer].kv_heads * shapes[layer].v_head_dim;
    std::vector<float> rows(kFillTokens * std::max(k_width, v_width));
    const CounterRng rng(1, layer);
    for (size_t index = 0; index < rows.size(); ++index) rows[index] = static_cast<float>(rng.Uniform(index) * 4 - 2);
    for (size_t done = 0; done < tokens; done += kFillTokens) {
      cache.Append(layer, rows.data(), k_width, rows.data(), v_width, std::min(kFillTokens, tokens - done), pool);
      cache.Settle(layer);
    }
  }
  return cache;
}

}  // namespace

double TrueFlop(const ModelConfig& config, size_t depth, size_t tokens) {
  const auto count = static_cast<double>(tokens);
  const double pairs = count * static_cast<double>(depth) + count * (count + 1) / 2;
  double flop = 2.0 * static_cast<double>(MatrixParameters(config)) * count;
  for (const LayerConfig& layer : config.layers) {
    const AttentionConfig& at = layer.attention;
    flop += 2.0 * static_cast<double>(at.q_heads * (at.k_head_dim + at.v_head_dim)) * pairs;
  }
  return flop;
}

double SgemmFlopPerSecond(const ModelConfig& config, size_t rows, ThreadPool& pool) {
  const LayerConfig& layer = config.layers.front();
  double best = SgemmRate(1024, 1024, 1024, pool);
  best = std::max(best, SgemmRate(rows, layer.ffn_width, config.hidden, pool));
  best = std::max(best, SgemmRate(rows, config.hidden, layer.ffn_width, pool));
  return best;
}

Result<PrefillBenchResult> BenchPrefill(Transformer& transformer, ThreadPool& pool, const PrefillBenchOptions& options,
                                        const std::function<void(const std::string&)>& on_progress) {
  const ModelConfig& config = transformer.model().config();
  std::vector<int32_t> tokens(options.chunk);
  const CounterRng rng(2);
  for (size_t index = 0; index < tokens.size(); ++index) {
    tokens[index] = static_cast<int32_t>(rng.Below(index, config.vocabulary));
  }
  const size_t rows = options.depths.size() * options.arms.size();
  std::vector<double> sgemm;
  std::vector<std::vector<double>> seconds(rows);
  std::vector<size_t> scratch(rows);
  for (size_t repetition = 0; repetition < options.repetitions; ++repetition) {
    sgemm.push_back(SgemmFlopPerSecond(config, options.chunk, pool));
    for (size_t row = 0; row < rows; ++row) {
      const size_t depth = options.depths[row / options.arms.size()];
      const Policy& policy = options.arms[row % options.arms.size()];
      on_progress(
          fmt::format("repetition {} of {}: {} at depth {}", repetition + 1, options.repetitions, policy.text, depth));
      KVANT_ASSIGN_OR_RETURN(SequenceCache cache, FilledCache(policy, config, depth, pool));
      const StepRows step{&cache, tokens, nullptr, 0};
      const auto start = Clock::now();
      transformer.Step(std::span(&step, 1));
      seconds[row].push_back(SecondsSince(start));
      scratch[row] = transformer.scratch_bytes();
    }
  }

  PrefillBenchResult result;
  result.sgemm_gflop_per_second = Median(sgemm) / 1e9;
  for (size_t row = 0; row < rows; ++row) {
    const size_t first_arm = row / options.arms.size() * options.arms.size();
    PrefillBenchRow out;
    out.arm = row % options.arms.size();
    out.depth = options.depths[row / options.arms.size()];
    out.flop = TrueFlop(config, out.depth, options.chunk);
    out.seconds = Median(seconds[row]);
    const auto [low, high] = std::minmax_element(seconds[row].begin(), seconds[row].end());
    out.spread = (*high - *low) / out.seconds;
    out.tokens_per_second = static_cast<double>(options.chunk) / out.seconds;
    out.gflop_per_second = out.flop / out.seconds / 1e9;
    std::vector<double> shares;
    std::vector<double> ratios;
    for (size_t repetition = 0; repetition < options.repetitions; ++repetition) {
      shares.push_back(out.flop / seconds[row][repetition] / sgemm[repetition]);
      ratios.push_back(seconds[row][repetition] / seconds[first_arm][repetition]);
    }
    out.sgemm_share = Median(shares);
    out.time_ratio = Median(ratios);
    out.scratch_bytes = scratch[row];
    result.rows.push_back(out);
  }
  return result;
}

}  // namespace kvant
