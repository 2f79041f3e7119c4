#include "kvant/eval/prefill_run.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/model/parity_test_model.h"

namespace kvant {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kScored = 70;
constexpr size_t kTokens = 300;  // three pages of the cache, with a BOS, and not a multiple of anything

const ParityModel& Llama() {
  static const ParityModel model("llama");
  return model;
}

SpanTokens LongSpan() {
  return *CutSpan(RandomTokens(400, 320, 3), {.end = 399, .scored = kScored, .context = kTokens - kScored - 1}, 316);
}

Result<PrefillRun> RunLlama(const std::string& policy, const SpanTokens& span, size_t chunk = 64, size_t threads = 2,
                            const ChunkCallback& on_chunk = nullptr) {
  ThreadPool pool(threads);
  Transformer transformer(Llama().model, pool);
  return RunPrefill(transformer, *ParsePolicy(policy), span, chunk, on_chunk);
}

bool SameBits(const AlignedBuffer<float>& a, const AlignedBuffer<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

const std::vector<std::string>& Policies() {
  static const std::vector<std::string> policies = {
      "k=f32 v=f32",
      "k=q4_0 v=q8_0",
      "k=had+q4_0 v=affine3/g32 window=40 sinks=4",
      "k=affine2/vector v=dict3 window=7 exact=f16",
      "k=f16 v=f32 k[0,-1]=q4_0 v[1]=absmax4/head window=128 sinks=130",
      "k=q5_1 v=q5_0 sinks=3 order=interleaved exact=bf16",
      "k=q4_0 v=q4_0 window=1000",
  };
  return policies;
}

TEST(PrefillRun, BitsDoNotDependOnChunkOrThreads) {
  const SpanTokens span = LongSpan();
  ASSERT_EQ(span.tokens.size(), kTokens);
  for (const std::string& policy : Policies()) {
    const PrefillRun want = *RunLlama(policy, span, 512, 1);
    for (const auto& [chunk, threads] : {std::pair<size_t, size_t>{1, 2}, {7, 3}, {64, 1}, {64, 2}, {512, 3}}) {
      const PrefillRun got = *RunLlama(policy, span, chunk, threads);
      EXPECT_TRUE(SameBits(got.hidden, want.hidden)) << policy << " chunk " << chunk << " threads " << threads;
      EXPECT_EQ(got.cache_hash, want.cache_hash) << policy << " chunk " << chunk << " threads " << threads;
      EXPECT_EQ(got.stats.values, want.stats.values) << policy;
      EXPECT_EQ(got.rows_exact, want.rows_exact) << policy;
      EXPECT_EQ(got.rows_quantized, want.rows_quantized) << policy;
    }
  }
}

TEST(PrefillRun, HiddenStatesAreThoseOfTheScoredTokens) {
  const SpanTokens span = LongSpan();
  const size_t hidden = Llama().model.config().hidden;
  SpanTokens all = span;
  all.scored = all.tokens.size();
  const PrefillRun last = *RunLlama("k=q4_0 v=f32", span, 64);
  const PrefillRun whole = *RunLlama("k=q4_0 v=f32", all, 64);
  ASSERT_EQ(last.hidden.size(), kScored * hidden);
  EXPECT_EQ(last.scored, kScored);
  EXPECT_EQ(std::memcmp(last.hidden.data(), whole.hidden.data() + (kTokens - kScored) * hidden, last.hidden.bytes()),
            0);
}

TEST(PrefillRun, BytesAreThePredictedOnes) {
  const std::vector<LayerShape> shapes = CacheShapes(Llama().model.config());
  for (const std::string& policy : Policies()) {
    const PrefillRun run = *RunLlama(policy, LongSpan());
    const CacheBytes want = PredictBytes(*ParsePolicy(policy), shapes, kTokens);
    for (const auto& [got_side, want_side] : {std::pair{run.bytes.k, want.k}, {run.bytes.v, want.v}}) {
      EXPECT_EQ(got_side.coded, want_side.coded) << policy;
      EXPECT_EQ(got_side.window, want_side.window) << policy;
      EXPECT_EQ(got_side.sinks, want_side.sinks) << policy;
      EXPECT_EQ(got_side.values, want_side.values) << policy;
    }
  }
  // By hand: 300 tokens, 3 layers, 2 heads of 32. q4_0 takes 18 bytes for 32 values, q8_0 34.
  const PrefillRun run = *RunLlama("k=q4_0 v=q8_0", LongSpan());
  EXPECT_EQ(run.bytes.k.total(), 300u * 3 * 2 * 18);
  EXPECT_EQ(run.bytes.v.total(), 300u * 3 * 2 * 34);
}

// Every (query, token) pair, one by one, by what window and sinks mean.
TEST(PrefillRun, RowsAreCountedByHowTheyAreStored) {
  struct Case {
    std::string policy;
    size_t window;
    size_t sinks;
    std::vector<bool> k_exact;  // of each layer: the side is in f32
    std::vector<bool> v_exact;
  };
  const std::vector<Case> cases = {
      {"k=f32 v=f32", 0, 0, {true, true, true}, {true, true, true}},
      {"k=f32 v=q4_0", 0, 0, {true, true, true}, {false, false, false}},
      {"k=f16 v=q4_0", 0, 0, {false, false, false}, {false, false, false}},
      {"k=q4_0 v=q4_0 window=40 sinks=4", 40, 4, {false, false, false}, {false, false, false}},
      {"k=q4_0 v=q4_0 window=40 sinks=4 exact=f16", 40, 4, {false, false, false}, {false, false, false}},
      {"k=q4_0 v=q4_0 sinks=240", 0, 240, {false, false, false}, {false, false, false}},
      {"k=q4_0 v=q4_0 window=290", 290, 0, {false, false, false}, {false, false, false}},
      {"k=q4_0 v=f32 k[-1]=f32 v[0]=q8_0 window=10", 10, 0, {false, false, true}, {false, true, true}},
      {"k=q4_0 v=q4_0 window=1000 sinks=1000", 1000, 1000, {false, false, false}, {false, false, false}},
  };
  for (const Case& one : cases) {
    uint64_t exact = 0;
    uint64_t quantized = 0;
    for (const std::vector<bool>& side : {one.k_exact, one.v_exact}) {
      for (const bool layer_exact : side) {
        for (size_t query = kTokens - kScored; query < kTokens; ++query) {
          for (size_t token = 0; token <= query; ++token) {
            const bool kept = token < one.sinks || query - token < one.window;
            (layer_exact || kept ? exact : quantized) += 1;
          }
        }
      }
    }
    const PrefillRun run = *RunLlama(one.policy, LongSpan());
    EXPECT_EQ(run.rows_exact, exact) << one.policy;
    EXPECT_EQ(run.rows_quantized, quantized) << one.policy;
  }
}

TEST(PrefillRun, ReportsEveryChunkAndStopsWhenAsked) {
  const SpanTokens span = LongSpan();
  std::vector<size_t> done;
  ASSERT_TRUE(RunLlama("k=f32 v=f32", span, 128, 1, [&](size_t tokens) {
                done.push_back(tokens);
                return true;
              }).has_value());
  EXPECT_THAT(done, ElementsAre(128, 256, 300));
  done.clear();
  const auto stopped = RunLlama("k=f32 v=f32", span, 128, 1, [&](size_t tokens) {
    done.push_back(tokens);
    return tokens < 200;
  });
  EXPECT_THAT(done, ElementsAre(128, 256));
  ASSERT_FALSE(stopped.has_value());
  EXPECT_THAT(stopped.error().message, HasSubstr("stopped"));
}

std::string ErrorOf(const std::string& policy, const SpanTokens& span, size_t chunk = 64) {
  bool ran = false;
  const auto run = RunLlama(policy, span, chunk, 1, [&](size_t) { return ran = true; });
  EXPECT_FALSE(ran) << policy;
  return run ? "" : run.error().message;
}

TEST(PrefillRun, RefusesBeforeItRuns) {
  EXPECT_THAT(ErrorOf("k=f32 v=f32", {{1, 2, 320}, 1}), HasSubstr("token id 320 is outside the model's vocabulary"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32", {{1, -1, 3}, 1}), HasSubstr("token id -1 is outside"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32", {{1, 2, 3}, 1}, 0), HasSubstr("chunk"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32", {{1, 2, 3}, 4}), HasSubstr("4 of 3 tokens"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32", {{1, 2, 3}, 0}), HasSubstr("0 of 3 tokens"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32", {{}, 0}), HasSubstr("0 of 0 tokens"));
  // Groups of 64 in heads of 32, and a transform that these heads are too small for.
  EXPECT_THAT(ErrorOf("k=affine4/g64 v=f32", {{1, 2, 3}, 1}), HasSubstr("keys of layer 0: affine4/g64"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32 v[2]=had64+q4_0", {{1, 2, 3}, 1}), HasSubstr("values of layer 2: had64"));
  EXPECT_THAT(ErrorOf("k=f32 v=f32 k[3]=q4_0", {{1, 2, 3}, 1}), HasSubstr("its attention layers are 0 to 2"));
}

// Case 40: two arms that stored different bytes can be told apart, and the same bytes have the same hash.
TEST(PrefillRun, CacheHashTellsArmsApart) {
  const SpanTokens span = LongSpan();
  std::vector<std::string> hashes;
  for (const char* policy :
       {"k=f32 v=f32", "k=q4_0 v=f32", "k=f32 v=q4_0", "k=q4_0 v=q4_0", "k=q4_0 v=q4_0 window=5"}) {
    hashes.push_back(RunLlama(policy, span)->cache_hash);
    EXPECT_EQ(hashes.back().size(), 64u);
    for (size_t other = 0; other + 1 < hashes.size(); ++other) EXPECT_NE(hashes.back(), hashes[other]) << policy;
  }
  EXPECT_EQ(RunLlama("v=f32 k=q4_0 sinks=0", span)->cache_hash, hashes[1]);
}

// An exact policy is the plain forward pass: keys and values untouched, and the same bits as without a window.
TEST(PrefillRun, ExactPoliciesChangeNoBit) {
  const SpanTokens span = LongSpan();
  const PrefillRun plain = *RunLlama("k=f32 v=f32", span);
  EXPECT_EQ(plain.stats.saturated, 0u);
  ThreadPool pool(2);
  Transformer transformer(Llama().model, pool);
  SequenceCache cache = *SequenceCache::Create(*ParsePolicy("k=f32 v=f32"), CacheShapes(Llama().model.config()));
  std::vector<float> hidden(kScored * Llama().model.config().hidden);
  const StepRows rows{&cache, span.tokens, hidden.data(), kTokens - kScored};
  transformer.Step(std::span(&rows, 1));
  EXPECT_EQ(std::memcmp(hidden.data(), plain.hidden.data(), plain.hidden.bytes()), 0);
  EXPECT_EQ(plain.cache_hash, cache.Hash());
  EXPECT_TRUE(SameBits(RunLlama("k=f32 v=f32 window=33 sinks=4", span)->hidden, plain.hidden));
  EXPECT_TRUE(SameBits(RunLlama("k=q4_0 v=q4_0 window=300", span)->hidden, plain.hidden));
  EXPECT_TRUE(SameBits(RunLlama("k=q4_0 v=q4_0 sinks=300", span)->hidden, plain.hidden));
  EXPECT_FALSE(SameBits(RunLlama("k=q4_0 v=q4_0 sinks=299", span)->hidden, plain.hidden));
}

}  // namespace
}  // namespace kvant
