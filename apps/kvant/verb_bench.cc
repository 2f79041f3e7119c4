// kvant bench: speed, as ratios within one run.
#include <cstdio>

#include <nlohmann/json.hpp>

#include "kvant/base/cpu_target.h"
#include "kvant/eval/prefill_bench.h"
#include "kvant/experiment/provenance.h"
#include "messages.h"
#include "session.h"
#include "verbs.h"

namespace kvant {
namespace {

struct BenchArguments {
  ModelArguments model;
  std::vector<std::string> arms = {"k=f32 v=f32", "k=q4_0 v=q4_0"};
  std::vector<size_t> depths = {0, 4096};
  size_t chunk = kDefaultBenchChunk;
  size_t repetitions = 5;
  bool json = false;

  static constexpr size_t kDefaultBenchChunk = 512;
};

void PrintRow(const BenchArguments& arguments, const PrefillBenchResult& result, const PrefillBenchRow& row,
              size_t threads) {
  if (!arguments.json) {
    std::puts(fmt::format("{:<32} {:>7} {:>9.3f} {:>7.1f} {:>10.1f} {:>8.1f} {:>9.1f} {:>8.3f}",
                          arguments.arms[row.arm], row.depth, row.seconds, 100 * row.spread, row.tokens_per_second,
                          row.gflop_per_second, 100 * row.sgemm_share, row.time_ratio)
                  .c_str());
    return;
  }
  nlohmann::ordered_json line;
  line["arm"] = arguments.arms[row.arm];
  line["depth"] = row.depth;
  line["chunk"] = arguments.chunk;
  line["threads"] = threads;
  line["seconds"] = row.seconds;
  line["spread"] = row.spread;
  line["tokens_per_s"] = row.tokens_per_second;
  line["gflop"] = row.flop / 1e9;
  line["gflop_per_s"] = row.gflop_per_second;
  line["sgemm_gflop_per_s"] = result.sgemm_gflop_per_second;
  line["sgemm_share"] = row.sgemm_share;
  line["time_ratio"] = row.time_ratio;
  line["scratch_bytes"] = row.scratch_bytes;
  line["target"] = ActiveTarget();
  line["path"] = "prefill: decoded tiles, f32 products";
  std::puts(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

Result<int> BenchPrefillVerb(const BenchArguments& arguments, const Environment& environment) {
  PrefillBenchOptions options;
  options.depths = arguments.depths;
  options.chunk = arguments.chunk;
  options.repetitions = arguments.repetitions;
  for (const std::string& arm : arguments.arms) {
    KVANT_ASSIGN_OR_RETURN(Policy policy, ParsePolicy(arm));
    options.arms.push_back(std::move(policy));
  }
  KVANT_ASSIGN_OR_RETURN(const LoadedModel loaded, LoadModel(arguments.model, environment));
  for (const Policy& policy : options.arms) KVANT_RETURN_IF_ERROR(Supports(policy, CacheShapes(loaded.model.config())));
  KVANT_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> threads,
                         ThreadPool::Create(ThreadsOf(arguments.model.threads)));
  ThreadPool& pool = *threads;
  Transformer transformer(loaded.model, pool);
  KVANT_ASSIGN_OR_RETURN(const PrefillBenchResult result,
                         BenchPrefill(transformer, pool, options, [](const std::string& what) { PrintMessage(what); }));
  if (!arguments.json) {
    std::puts(fmt::format("{}, {} threads, {}, {}: chunks of {} tokens, median of {} interleaved repetitions",
                          loaded.model.config().name, pool.threads(), CpuModel(), ActiveTarget(), arguments.chunk,
                          arguments.repetitions)
                  .c_str());
    std::puts(
        fmt::format("oneDNN sgemm, one caller per thread: {:.1f} GFLOP/s", result.sgemm_gflop_per_second).c_str());
    std::puts(fmt::format("{:<32} {:>7} {:>9} {:>7} {:>10} {:>8} {:>9} {:>8}", "arm", "depth", "seconds", "+-%",
                          "tokens/s", "GFLOP/s", "% sgemm", "x first")
                  .c_str());
  }
  for (const PrefillBenchRow& row : result.rows) PrintRow(arguments, result, row, pool.threads());
  return kExitOk;
}

}  // namespace

void AddBench(CLI::App& app, const Environment& environment, Action& run) {
  CLI::App* bench = app.add_subcommand("bench", "speed, as ratios within one run");
  bench->require_subcommand(1);
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* verb =
      bench->add_subcommand("prefill", "a chunk of prompt at several depths, against sgemm and the first arm");
  AddModelArguments(*verb, arguments->model);
  verb->add_option("--arm", arguments->arms, "policies; the first is what the others are compared with")
      ->take_all()
      ->expected(1)
      ->capture_default_str();
  verb->add_option("--depth", arguments->depths, "tokens in the cache before the chunk")
      ->delimiter(',')
      ->check(WholeNumber(0, size_t{1} << 22))
      ->capture_default_str();
  verb->add_option("--chunk", arguments->chunk, "tokens of the timed chunk")
      ->check(WholeNumber(1, 65536))
      ->capture_default_str();
  verb->add_option("--repetitions", arguments->repetitions, "of the whole round")
      ->check(WholeNumber(1, 1000))
      ->capture_default_str();
  verb->add_flag("--json", arguments->json, "one JSON object a line, arm and depth");
  verb->callback([arguments, &environment, &run] {
    run = [=, &environment] { return BenchPrefillVerb(*arguments, environment); };
  });
}

}  // namespace kvant
