#include "kvant/cache/geometry.h"

#include <gtest/gtest.h>

namespace kvant {
namespace {

Policy Parse(const char* text) {
  auto policy = ParsePolicy(text);
  EXPECT_TRUE(policy.has_value());
  return *policy;
}

// Published sizes: bits per value of ggml's types, and of affine groups (B + 32 / group).
TEST(Geometry, BitsPerValueMatchPublishedSizes) {
  const std::vector<LayerShape> layers(2, LayerShape{4, 128, 128, 0});
  for (const auto& [text, bits] : {std::pair{"k=q4_0 v=f32", 4.5},
                                   {"k=q4_1 v=f32", 5.0},
                                   {"k=q5_0 v=f32", 5.5},
                                   {"k=q5_1 v=f32", 6.0},
                                   {"k=q8_0 v=f32", 8.5},
                                   {"k=f16 v=f32", 16.0},
                                   {"k=affine2/g32 v=f32", 3.0},
                                   {"k=affine4/g64 v=f32", 4.5},
                                   {"k=affine3/head v=f32", 3.25},
                                   {"k=absmax4/g32 v=f32", 4.5},
                                   {"k=affine4/vector v=f32", 4.0625},
                                   {"k=had+dict3 v=f32", 3.1875}}) {
    const CacheBytes bytes = PredictBytes(Parse(text), layers, 1000);
    EXPECT_DOUBLE_EQ(BitsPerValue(bytes.k), bits) << text;
    EXPECT_DOUBLE_EQ(BitsPerValue(bytes.v), 32.0) << text;
    EXPECT_EQ(bytes.k.values, 2u * 4 * 128 * 1000);
  }
}

// Llama-2-7B: 262,144 values a token; Qwen3.5-4B's attention layers: 8.59 GB at 262,144 tokens in bf16.
TEST(Geometry, KnownModels) {
  const std::vector<LayerShape> llama(32, LayerShape{32, 128, 128, 0});
  const CacheBytes one = PredictBytes(Parse("k=f16 v=f16"), llama, 1);
  EXPECT_EQ(one.k.values + one.v.values, 262144u);
  const std::vector<LayerShape> qwen(8, LayerShape{4, 256, 256, 0});
  const CacheBytes full = PredictBytes(Parse("k=bf16 v=bf16"), qwen, 262144);
  EXPECT_EQ(full.k.total() + full.v.total(), 8589934592u);
}

TEST(Geometry, WindowAndSinksAreBilledAtTheirOwnWidth) {
  const std::vector<LayerShape> layers(1, LayerShape{2, 64, 64, 0});
  const CacheBytes bytes = PredictBytes(Parse("k=q4_0 v=q4_0 window=128 sinks=4 exact=f16"), layers, 1000);
  EXPECT_EQ(bytes.k.sinks, 4u * 128 * 2);
  EXPECT_EQ(bytes.k.window, 128u * 128 * 2);
  EXPECT_EQ(bytes.k.coded, (1000u - 132) * 128 / 32 * 18);
  // Shorter than window and sinks together: sinks first.
  const CacheBytes shorter = PredictBytes(Parse("k=q4_0 v=q4_0 window=128 sinks=4 exact=f16"), layers, 10);
  EXPECT_EQ(shorter.k.sinks, 4u * 128 * 2);
  EXPECT_EQ(shorter.k.window, 6u * 128 * 2);
  EXPECT_EQ(shorter.k.coded, 0u);
}

TEST(Geometry, RefusesByNameBeforeAllocation) {
  const std::vector<LayerShape> layers(3, LayerShape{2, 72, 72, 0});
  const auto ggml = Supports(Parse("k=q4_0 v=f32"), layers);
  ASSERT_FALSE(ggml.has_value());
  EXPECT_NE(ggml.error().message.find("keys of layer 0"), std::string::npos) << ggml.error().message;
  EXPECT_NE(ggml.error().message.find("72"), std::string::npos) << ggml.error().message;
  EXPECT_FALSE(Supports(Parse("k=f32 v=had+q8_0"), layers).has_value());
  EXPECT_TRUE(Supports(Parse("k=affine4/g32 v=f16"), layers).has_value());
  const auto layer = Supports(Parse("k=f32 v=f32 v[3]=f16"), layers);
  ASSERT_FALSE(layer.has_value());
  EXPECT_NE(layer.error().message.find("v[3]"), std::string::npos) << layer.error().message;
  EXPECT_TRUE(Supports(Parse("k=f32 v=f32 v[-3]=f16"), layers).has_value());
  EXPECT_FALSE(Supports(Parse("k=f32 v=f32 v[-4]=f16"), layers).has_value());
}

}  // namespace
}  // namespace kvant
