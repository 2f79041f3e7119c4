#include "kvant/cache/stream.h"

#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/rng.h"
#include "kvant/cache/sequence_cache.h"

namespace kvant {
namespace {

constexpr size_t kHeads = 3;
constexpr size_t kDim = 64;

std::vector<float> Rows(size_t tokens, uint64_t stream = 0) {
  const CounterRng rng(11, stream);
  std::vector<float> rows(tokens * kHeads * kDim);
  for (size_t index = 0; index < rows.size(); ++index) rows[index] = static_cast<float>(rng.Normal(index));
  return rows;
}

std::string HashAfter(const char* policy_text, size_t tokens, const std::vector<size_t>& chunks, size_t threads) {
  const auto policy = ParsePolicy(policy_text);
  EXPECT_TRUE(policy.has_value());
  KvStream stream(policy->KeysOf(0, 1), kHeads, kDim);
  ThreadPool pool(threads);
  const std::vector<float> rows = Rows(tokens);
  size_t done = 0;
  for (size_t turn = 0; done < tokens; ++turn) {
    const size_t count = std::min(chunks[turn % chunks.size()], tokens - done);
    stream.Append(&rows[done * kHeads * kDim], kHeads * kDim, count, pool);
    stream.Settle();
    done += count;
  }
  Sha256 sha;
  stream.HashInto(sha);
  return sha.Hex();
}

TEST(KvStream, OneByOneEqualsBulk) {
  for (const char* policy : {"k=f32 v=f32", "k=q4_0 v=f32", "k=had+affine3/g32 v=f32 window=40 sinks=4",
                             "k=affine4/vector v=f32 window=128 exact=f16", "k=dict3 v=f32 sinks=200"}) {
    const std::string bulk = HashAfter(policy, 300, {300}, 1);
    EXPECT_EQ(HashAfter(policy, 300, {1}, 1), bulk) << policy;
    EXPECT_EQ(HashAfter(policy, 300, {7, 128, 1}, 3), bulk) << policy;
  }
}

TEST(KvStream, BytesEqualThePredictionAtEveryLength) {
  for (const char* text : {"k=q4_0 v=f32", "k=affine3/g64 v=f32 window=130 sinks=4", "k=dict3 v=f32 sinks=5 window=3",
                           "k=affine5/vector v=f32 window=1 exact=f16"}) {
    const auto policy = ParsePolicy(text);
    KvStream stream(policy->KeysOf(0, 1), kHeads, kDim);
    ThreadPool pool(1);
    const std::vector<float> rows = Rows(400);
    for (size_t done = 0; done < 400;) {
      const size_t count = std::min<size_t>(1 + done % 9, 400 - done);
      stream.Append(&rows[done * kHeads * kDim], kHeads * kDim, count, pool);
      stream.Settle();
      done += count;
      const StreamBytes want = PredictBytes(policy->KeysOf(0, 1), kHeads, kDim, done);
      const StreamBytes got = stream.Bytes();
      EXPECT_EQ(got.coded, want.coded) << text << " " << done;
      EXPECT_EQ(got.window, want.window) << text << " " << done;
      EXPECT_EQ(got.sinks, want.sinks) << text << " " << done;
      EXPECT_EQ(got.values, want.values) << text << " " << done;
    }
  }
}

// Every token is visible to every later query exactly once, whatever the windows.
TEST(KvStream, SegmentsShowEachTokenOnce) {
  for (const char* text :
       {"k=q4_0 v=f32", "k=q4_0 v=f32 window=37", "k=q4_0 v=f32 sinks=9", "k=q8_0 v=f32 window=20 sinks=3"}) {
    const auto policy = ParsePolicy(text);
    KvStream stream(policy->KeysOf(0, 1), kHeads, kDim);
    ThreadPool pool(1);
    const std::vector<float> rows = Rows(200);
    stream.Append(rows.data(), kHeads * kDim, 90, pool);
    stream.Settle();
    stream.Append(&rows[90 * kHeads * kDim], kHeads * kDim, 110, pool);
    for (int64_t query = 90; query < 200; ++query) {
      std::vector<int> seen(200);
      for (const Segment& segment : stream.View().segments) {
        for (int64_t token = segment.token_begin; token < segment.token_end; ++token) {
          const int64_t age = query - token;
          if (age >= segment.min_age && age < segment.max_age) ++seen[static_cast<size_t>(token)];
        }
      }
      for (int64_t token = 0; token < 200; ++token) {
        EXPECT_EQ(seen[static_cast<size_t>(token)], token <= query ? 1 : 0)
            << text << " query " << query << " token " << token;
      }
    }
  }
}

TEST(SequenceCache, KeysOnlyValuesOnlyAndBothStoreDifferentBytes) {
  const std::vector<LayerShape> layers(2, LayerShape{kHeads, kDim, kDim, 0});
  ThreadPool pool(1);
  const std::vector<float> rows = Rows(50);
  std::vector<std::string> hashes;
  for (const char* text : {"k=q4_0 v=f32", "k=f32 v=q4_0", "k=q4_0 v=q4_0", "k=f32 v=f32"}) {
    auto cache = SequenceCache::Create(*ParsePolicy(text), layers);
    ASSERT_TRUE(cache.has_value());
    for (size_t layer = 0; layer < 2; ++layer) {
      cache->Append(layer, rows.data(), kHeads * kDim, rows.data(), kHeads * kDim, 50, pool);
      cache->Settle(layer);
    }
    EXPECT_EQ(cache->tokens(), 50);
    for (const std::string& other : hashes) EXPECT_NE(cache->Hash(), other) << text;
    hashes.push_back(cache->Hash());
  }
}

TEST(SequenceCache, CountsWhatCouldNotBeStored) {
  const std::vector<LayerShape> layers(1, LayerShape{kHeads, kDim, kDim, 0});
  ThreadPool pool(2);
  std::vector<float> rows = Rows(40);
  rows[100] = 1e6f;
  auto cache = SequenceCache::Create(*ParsePolicy("k=f16 v=f32"), layers);
  ASSERT_TRUE(cache.has_value());
  cache->Append(0, rows.data(), kHeads * kDim, rows.data(), kHeads * kDim, 40, pool);
  EXPECT_EQ(cache->Stats().saturated, 1u);
  EXPECT_EQ(cache->Stats().values, 2u * 40 * kHeads * kDim);
}

}  // namespace
}  // namespace kvant
