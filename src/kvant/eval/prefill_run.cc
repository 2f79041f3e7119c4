#include "kvant/eval/prefill_run.h"

#include <algorithm>
#include <chrono>

namespace kvant {
namespace {

bool IsExact(const CodecSpec& codec) { return codec.family == CodecFamily::kF32; }

// Rows of one stream that queries at tokens [first, end) read. Window and sinks are copies that the policy's codec has
// not touched, in whatever format `exact` names; the rest went through the codec.
void CountRows(const StreamPolicy& policy, int64_t first, int64_t end, PrefillRun& run) {
  for (int64_t query = first; query < end; ++query) {
    const auto visible = static_cast<uint64_t>(query + 1);
    const uint64_t sinks = std::min<uint64_t>(visible, policy.sinks);
    const uint64_t window = std::min<uint64_t>(visible - sinks, policy.window);
    const uint64_t coded = visible - sinks - window;
    run.rows_exact += sinks + window;
    (IsExact(policy.format.codec) ? run.rows_exact : run.rows_quantized) += coded;
  }
}

}  // namespace

Result<PrefillRun> RunPrefill(Transformer& transformer, const Policy& policy, const SpanTokens& span, size_t chunk,
                              const ChunkCallback& on_chunk) {
  const ModelConfig& config = transformer.model().config();
  const std::vector<LayerShape> shapes = CacheShapes(config);
  if (chunk == 0) return Fail("a chunk must have at least 1 token");
  if (span.scored == 0 || span.scored > span.tokens.size()) {
    return Fail("{} of {} tokens cannot be scored", span.scored, span.tokens.size());
  }
  for (const int32_t token : span.tokens) {
    if (token < 0 || static_cast<size_t>(token) >= config.vocabulary) {
      return Fail("token id {} is outside the model's vocabulary of {}", token, config.vocabulary);
    }
  }

  KVANT_ASSIGN_OR_RETURN(SequenceCache cache, SequenceCache::Create(policy, shapes));
  PrefillRun run;
  run.scored = span.scored;
  run.hidden = AlignedBuffer<float>(span.scored * config.hidden);
  const size_t total = span.tokens.size();
  const size_t first_scored = total - span.scored;
  const auto start = std::chrono::steady_clock::now();
  for (size_t begin = 0; begin < total; begin += chunk) {
    const size_t end = std::min(total, begin + chunk);
    StepRows rows;
    rows.cache = &cache;
    rows.tokens = std::span(span.tokens).subspan(begin, end - begin);
    if (end > first_scored) {
      const size_t from = std::max(begin, first_scored);
      rows.hidden = run.hidden.data() + (from - first_scored) * config.hidden;
      rows.hidden_from = from - begin;
    }
    transformer.Step(std::span(&rows, 1));
    if (on_chunk && !on_chunk(end)) return Fail("stopped on request");
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  run.bytes = cache.Bytes();
  run.stats = cache.Stats();
  run.cache_hash = cache.Hash();
  for (size_t layer = 0; layer < shapes.size(); ++layer) {
    const auto first = static_cast<int64_t>(first_scored);
    CountRows(policy.KeysOf(layer, shapes.size()), first, static_cast<int64_t>(total), run);
    CountRows(policy.ValuesOf(layer, shapes.size()), first, static_cast<int64_t>(total), run);
  }
  return run;
}

}  // namespace kvant
