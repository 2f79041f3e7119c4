#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/attn/prefill.h"
#include "kvant/attn/reference.h"
#include "kvant/base/cpu_target.h"
#include "kvant/base/rng.h"
#include "kvant/cache/stream.h"

namespace kvant {
namespace {

struct Problem {
  size_t q_heads = 6;
  size_t kv_heads = 2;
  size_t k_dim = 64;
  size_t v_dim = 64;
  size_t tokens = 300;
  std::string policy = "k=f32 v=f32";
  uint64_t seed = 1;

  AttentionShape Shape() const { return {q_heads, 1.0f / std::sqrt(static_cast<float>(k_dim))}; }
};

std::vector<float> Normals(size_t elems, uint64_t seed, uint64_t stream) {
  const CounterRng rng(seed, stream);
  std::vector<float> values(elems);
  for (size_t index = 0; index < elems; ++index) values[index] = static_cast<float>(rng.Normal(index));
  return values;
}

// One layer of one sequence: appends in chunks and attends after each, as a model does.
class Layer {
 public:
  explicit Layer(const Problem& problem)
      : problem_(problem),
        q_(Normals(problem.tokens * problem.q_heads * problem.k_dim, problem.seed, 0)),
        k_(Normals(problem.tokens * problem.kv_heads * problem.k_dim, problem.seed, 1)),
        v_(Normals(problem.tokens * problem.kv_heads * problem.v_dim, problem.seed, 2)) {
    // Sharpened, so that maxima move and some weights underflow.
    for (float& value : q_) value *= 3.0f;
  }

  enum class Kernel { kPrefill, kReference };

  std::vector<float> Run(const std::vector<size_t>& chunks, size_t threads, Kernel kernel = Kernel::kPrefill) const {
    const auto policy = ParsePolicy(problem_.policy);
    EXPECT_TRUE(policy.has_value()) << policy.error().message;
    KvStream k(policy->KeysOf(0, 1), problem_.kv_heads, problem_.k_dim);
    KvStream v(policy->ValuesOf(0, 1), problem_.kv_heads, problem_.v_dim);
    ThreadPool pool(threads);
    WorkerScratch scratch;
    const size_t q_width = problem_.q_heads * problem_.k_dim;
    const size_t out_width = problem_.q_heads * problem_.v_dim;
    const size_t k_width = problem_.kv_heads * problem_.k_dim;
    const size_t v_width = problem_.kv_heads * problem_.v_dim;
    std::vector<float> out(problem_.tokens * out_width, std::nanf(""));
    size_t done = 0;
    for (size_t turn = 0; done < problem_.tokens; ++turn) {
      const size_t tokens = std::min(chunks[turn % chunks.size()], problem_.tokens - done);
      k.Append(&k_[done * k_width], k_width, tokens, pool);
      v.Append(&v_[done * v_width], v_width, tokens, pool);
      const AttentionItem item{{problem_.kv_heads, k.View(), v.View()},
                               &q_[done * q_width],
                               q_width,
                               &out[done * out_width],
                               out_width,
                               tokens,
                               static_cast<int64_t>(done)};
      if (kernel == Kernel::kPrefill) {
        PrefillAttention(problem_.Shape(), std::span(&item, 1), pool, scratch);
      } else {
        reference::Attention(problem_.Shape(), item);
      }
      k.Settle();
      v.Settle();
      done += tokens;
    }
    return out;
  }

  // Textbook attention in f32 over the exact rows: its distance from double calibrates the tolerance.
  std::vector<float> Plain() const {
    const size_t group = problem_.q_heads / problem_.kv_heads;
    std::vector<float> out(problem_.tokens * problem_.q_heads * problem_.v_dim);
    for (size_t query = 0; query < problem_.tokens; ++query) {
      for (size_t head = 0; head < problem_.q_heads; ++head) {
        const float* q = &q_[(query * problem_.q_heads + head) * problem_.k_dim];
        std::vector<float> scores(query + 1);
        for (size_t token = 0; token <= query; ++token) {
          const float* k = &k_[(token * problem_.kv_heads + head / group) * problem_.k_dim];
          float sum = 0;
          for (size_t channel = 0; channel < problem_.k_dim; ++channel) sum += q[channel] * k[channel];
          scores[token] = sum * problem_.Shape().score_scale;
        }
        const float top = *std::max_element(scores.begin(), scores.end());
        float total = 0;
        for (float& score : scores) total += score = std::exp(score - top);
        float* row = &out[(query * problem_.q_heads + head) * problem_.v_dim];
        for (size_t token = 0; token <= query; ++token) {
          const float* v = &v_[(token * problem_.kv_heads + head / group) * problem_.v_dim];
          for (size_t channel = 0; channel < problem_.v_dim; ++channel)
            row[channel] += scores[token] / total * v[channel];
        }
      }
    }
    return out;
  }

 private:
  Problem problem_;
  std::vector<float> q_, k_, v_;
};

double MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t index = 0; index < a.size(); ++index) {
    if (!std::isfinite(a[index]) || !std::isfinite(b[index])) return INFINITY;
    largest = std::max(largest, std::abs(double{a[index]} - b[index]));
  }
  return largest;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class PrefillAttentionTest : public testing::Test {
 protected:
  ~PrefillAttentionTest() override { EXPECT_TRUE(ForceTarget("").has_value()); }
};

TEST_F(PrefillAttentionTest, ErrsAtMostTwiceAsMuchAsPlainF32) {
  for (const Problem& problem :
       {Problem{}, Problem{.q_heads = 1, .kv_heads = 1, .k_dim = 32, .v_dim = 32, .tokens = 140},
        Problem{.q_heads = 8, .kv_heads = 1, .k_dim = 128, .v_dim = 128, .tokens = 150},
        Problem{.q_heads = 4, .kv_heads = 4, .k_dim = 40, .v_dim = 72, .tokens = 131},
        Problem{.q_heads = 2, .kv_heads = 1, .k_dim = 192, .v_dim = 128, .tokens = 60},
        Problem{.q_heads = 2, .kv_heads = 2, .k_dim = 512, .v_dim = 256, .tokens = 20}}) {
    const Layer layer(problem);
    const std::vector<float> exact = layer.Run({problem.tokens}, 1, Layer::Kernel::kReference);
    const double plain_error = MaxDifference(layer.Plain(), exact);
    ASSERT_GT(plain_error, 0);
    for (const std::string& target : SupportedTargets()) {
      ASSERT_TRUE(ForceTarget(target).has_value());
      ASSERT_EQ(ActiveTarget(), target);
      EXPECT_LE(MaxDifference(layer.Run({64}, 2), exact), 2 * plain_error) << target << " head " << problem.k_dim;
    }
  }
}

// Case 1 and 2 of the fault list: every K codec with every V codec reads what was stored.
TEST_F(PrefillAttentionTest, EveryKeyCodecWithEveryValueCodec) {
  const std::vector<CodecSpec> codecs = AllCodecs();
  ASSERT_GT(codecs.size(), 50u);
  size_t partner = 7;
  for (const CodecSpec& codec : codecs) {
    // Each codec meets itself, f32 on either side, and a partner that walks through the list.
    partner = (partner + 11) % codecs.size();
    for (const std::string& policy :
         {fmt::format("k={0} v={0}", ToText(codec)), fmt::format("k={} v=f32", ToText(codec)),
          fmt::format("k=f32 v={}", ToText(codec)), fmt::format("k={} v={}", ToText(codec), ToText(codecs[partner]))}) {
      Problem problem{.q_heads = 4, .kv_heads = 2, .k_dim = 128, .v_dim = 128, .tokens = 33, .policy = policy};
      const Layer layer(problem);
      const std::vector<float> exact = layer.Run({33}, 1, Layer::Kernel::kReference);
      EXPECT_LT(MaxDifference(layer.Run({33}, 1), exact), 2e-5) << policy;
    }
  }
}

TEST_F(PrefillAttentionTest, TransformsWindowsAndSinks) {
  for (const char* policy :
       {"k=had+q4_0 v=had+q4_0", "k=had64+affine3/g32 v=had64+q8_0", "k=q4_0 v=f32 order=interleaved",
        "k=had+q4_0 v=q4_0 window=50 sinks=4 order=interleaved", "k=affine2/vector v=q5_1 window=128",
        "k=q8_0 v=had+affine4/head sinks=5 exact=f16", "k=q4_0 v=q4_0 window=1 exact=bf16"}) {
    Problem problem{.tokens = 290, .policy = policy};
    const Layer layer(problem);
    const std::vector<float> exact = layer.Run({64}, 1, Layer::Kernel::kReference);
    EXPECT_LT(MaxDifference(layer.Run({64}, 2), exact), 3e-5) << policy;
  }
}

// A window or sinks that cover everything leave nothing to quantize.
TEST_F(PrefillAttentionTest, AWindowOverEverythingChangesNothing) {
  const std::vector<float> exact = Layer({.policy = "k=f32 v=f32"}).Run({100}, 2);
  EXPECT_TRUE(SameBits(Layer({.policy = "k=q4_0 v=affine2/g32 window=300"}).Run({100}, 2), exact));
  EXPECT_TRUE(SameBits(Layer({.policy = "k=q4_0 v=affine2/g32 sinks=300"}).Run({100}, 2), exact));
  EXPECT_FALSE(SameBits(Layer({.policy = "k=q4_0 v=f32 window=299"}).Run({100}, 2), exact));
  EXPECT_FALSE(SameBits(Layer({.policy = "k=f32 v=affine2/g32 sinks=299"}).Run({100}, 2), exact));
}

// With a window each query sees the tokens around it exactly as it would one token at a time.
TEST_F(PrefillAttentionTest, BitsDoNotDependOnChunksOrThreads) {
  for (const std::string& target : SupportedTargets()) {
    ASSERT_TRUE(ForceTarget(target).has_value());
    for (const char* policy : {"k=f32 v=f32", "k=q4_0 v=q8_0", "k=had+q4_0 v=affine3/g64 window=37 sinks=4",
                               "k=affine4/vector v=q5_0 window=128"}) {
      const Layer layer({.q_heads = 3, .kv_heads = 1, .tokens = 270, .policy = policy});
      const std::vector<float> whole = layer.Run({270}, 1);
      EXPECT_TRUE(SameBits(layer.Run({270}, 2), whole)) << policy << " " << target;
      EXPECT_TRUE(SameBits(layer.Run({64}, 3), whole)) << policy << " " << target;
      EXPECT_TRUE(SameBits(layer.Run({1, 7, 130}, 2), whole)) << policy << " " << target;
      EXPECT_TRUE(SameBits(layer.Run({1}, 1), whole)) << policy << " " << target;
    }
  }
}

TEST_F(PrefillAttentionTest, TargetsWithFusedMultiplyAddAgreeToTheBit) {
  const Layer layer({.policy = "k=had+q4_0 v=affine3/g32 window=20"});
  std::vector<float> first;
  for (const std::string& target : SupportedTargets()) {
    if (target == "SCALAR") continue;
    ASSERT_TRUE(ForceTarget(target).has_value());
    const std::vector<float> got = layer.Run({100}, 2);
    if (first.empty()) first = got;
    EXPECT_TRUE(SameBits(got, first)) << target;
  }
}

// One key that matches and a hundred that do not: the output is that key's stored value, bit for bit (case 2).
TEST_F(PrefillAttentionTest, OneHotAttentionReturnsTheStoredValue) {
  constexpr size_t kTokens = 100;
  constexpr size_t kDim = 64;
  const auto policy = ParsePolicy("k=f32 v=q8_0");
  ASSERT_TRUE(policy.has_value());
  KvStream k(policy->KeysOf(0, 1), 1, kDim);
  KvStream v(policy->ValuesOf(0, 1), 1, kDim);
  ThreadPool pool(1);
  std::vector<float> keys = Normals(kTokens * kDim, 3, 0);
  const std::vector<float> values = Normals(kTokens * kDim, 3, 1);
  k.Append(keys.data(), kDim, kTokens, pool);
  v.Append(values.data(), kDim, kTokens, pool);
  WorkerScratch scratch;
  for (const size_t chosen : {0, 17, 99}) {
    std::vector<float> q(&keys[chosen * kDim], &keys[(chosen + 1) * kDim]);
    for (float& value : q) value *= 100.0f;
    std::vector<float> out(kDim);
    const AttentionItem item{{1, k.View(), v.View()}, q.data(), kDim, out.data(), kDim, 1, kTokens - 1};
    PrefillAttention({1, 1.0f}, std::span(&item, 1), pool, scratch);
    std::vector<float> stored(kDim);
    const Segment& segment = v.View().segments.front();
    DecodeUnits(segment.codec, RunOf(segment, 1, kDim, 0, static_cast<int64_t>(chosen), 1), stored.data(), kDim);
    EXPECT_TRUE(SameBits(out, stored)) << chosen;
  }
}

// Keys at the magnitude of Qwen2.5's biases: products pass 65504, which must not matter in f32 (case 13).
TEST_F(PrefillAttentionTest, LargeKeysStayFinite) {
  constexpr size_t kDim = 64;
  const auto policy = ParsePolicy("k=q8_0 v=q4_0");
  KvStream k(policy->KeysOf(0, 1), 1, kDim);
  KvStream v(policy->ValuesOf(0, 1), 1, kDim);
  ThreadPool pool(1);
  std::vector<float> keys = Normals(200 * kDim, 5, 0);
  for (float& value : keys) value *= 900.0f;
  k.Append(keys.data(), kDim, 200, pool);
  v.Append(Normals(200 * kDim, 5, 1).data(), kDim, 200, pool);
  WorkerScratch scratch;
  std::vector<float> out(200 * kDim);
  const AttentionItem item{{1, k.View(), v.View()}, keys.data(), kDim, out.data(), kDim, 200, 0};
  PrefillAttention({1, 0.125f}, std::span(&item, 1), pool, scratch);
  std::vector<float> exact(200 * kDim);
  AttentionItem reference_item = item;
  reference_item.out = exact.data();
  reference::Attention({1, 0.125f}, reference_item);
  // Scores near 1e7 carry an f32 rounding of about 1, so only finiteness and the value range are promised.
  for (const float value : out) EXPECT_LT(std::abs(value), 6.0f);
}

}  // namespace
}  // namespace kvant
