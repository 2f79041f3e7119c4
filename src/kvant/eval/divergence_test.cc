#include "kvant/eval/divergence.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvant/eval/prefill_run.h"
#include "kvant/io/temporary_file_for_test.h"
#include "kvant/model/llama_test_file.h"
#include "kvant/model/parity_test_model.h"

namespace kvant {
namespace {

using ::testing::HasSubstr;

// Rows of normal values, or near `from` where it is given.
std::vector<float> RandomRows(size_t rows, size_t hidden, uint64_t seed, const std::vector<float>* from = nullptr) {
  const CounterRng rng(seed);
  std::vector<float> values(rows * hidden);
  for (size_t index = 0; index < values.size(); ++index) {
    values[index] = from != nullptr ? (*from)[index] + 0.2f * static_cast<float>(rng.Normal(index))
                                    : 2.0f * static_cast<float>(rng.Normal(index));
  }
  return values;
}

// All logits of one row, in double from the weights.
std::vector<double> FullLogits(const Model& model, const float* hidden) {
  const size_t width = model.config().hidden;
  std::vector<double> logits(model.config().vocabulary);
  std::vector<float> row(width);
  for (size_t entry = 0; entry < logits.size(); ++entry) {
    model.weights().head.Expand(entry, row.data());
    for (size_t channel = 0; channel < width; ++channel) logits[entry] += double{row[channel]} * hidden[channel];
  }
  return logits;
}

std::vector<double> LogSoftmax(std::vector<double> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - max);
  for (double& logit : logits) logit -= max + std::log(sum);
  return logits;
}

size_t Argmax(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

struct World {
  explicit World(uint32_t vocabulary, size_t threads = 2)
      : model(*Model::Load(TemporaryFile(LlamaTestFile({.vocabulary = vocabulary, .layers = 1}).Bytes()).path())),
        pool(threads),
        transformer(model, pool) {}

  Model model;  // its mapping survives the file
  ThreadPool pool;
  Transformer transformer;

  Result<Divergence> Compare(const std::vector<float>& reference, const std::vector<float>& arm,
                             const std::vector<int32_t>& tokens) {
    return kvant::Compare(transformer, pool, reference.data(), arm.data(), tokens);
  }
};

// Spans around the block of 512 positions and vocabularies around the tile of 1024 entries.
TEST(Compare, MatchesAPlainComputationInDouble) {
  for (const auto& [scored, vocabulary] : {std::pair<size_t, uint32_t>{2, 96},
                                           {513, 33},
                                           {40, 1024},
                                           {40, 1025},
                                           {40, 2500},
                                           {512, 40},
                                           {1030, 40},
                                           {3, 1}}) {
    World world(vocabulary);
    const size_t hidden = world.model.config().hidden;
    const std::vector<float> reference = RandomRows(scored, hidden, 1);
    const std::vector<float> arm = RandomRows(scored, hidden, 2, &reference);
    const std::vector<int32_t> tokens = RandomTokens(scored, vocabulary, 5);
    const Divergence got = *world.Compare(reference, arm, tokens);
    ASSERT_EQ(got.kl.size(), scored);
    ASSERT_EQ(got.agree.size(), scored);
    ASSERT_EQ(got.nll.size(), scored - 1);
    ASSERT_EQ(got.ref_nll.size(), scored - 1);
    double kl_sum = 0;
    double nll_sum = 0;
    size_t agreeing = 0;
    for (size_t token = 0; token < scored; ++token) {
      const std::vector<double> p = LogSoftmax(FullLogits(world.model, &reference[token * hidden]));
      const std::vector<double> q = LogSoftmax(FullLogits(world.model, &arm[token * hidden]));
      double kl = 0;
      for (size_t entry = 0; entry < p.size(); ++entry) kl += std::exp(p[entry]) * (p[entry] - q[entry]);
      // Logits are sums of 64 f32 products of size 2 * N(0, 1) * N(0, 1/8): 64 * 2^-24 * sum |terms| < 1e-4 each.
      EXPECT_NEAR(got.kl[token], kl, 2e-5) << vocabulary << " " << token;
      const bool same = Argmax(p) == Argmax(q);
      EXPECT_EQ(got.agree[token] != 0, same) << vocabulary << " " << token;
      agreeing += same ? 1 : 0;
      kl_sum += kl;
      if (token + 1 == scored) continue;
      const auto target = static_cast<size_t>(tokens[token + 1]);
      EXPECT_NEAR(got.nll[token], -q[target], 2e-5) << vocabulary << " " << token;
      EXPECT_NEAR(got.ref_nll[token], -p[target], 2e-5) << vocabulary << " " << token;
      nll_sum -= q[target];
    }
    EXPECT_TRUE(vocabulary == 1 || got.MeanKl() > 1e-3) << got.MeanKl();
    EXPECT_NEAR(got.MeanKl(), kl_sum / static_cast<double>(scored), 2e-5);
    EXPECT_DOUBLE_EQ(got.Top1(), static_cast<double>(agreeing) / static_cast<double>(scored));
    EXPECT_NEAR(std::log(got.Ppl()), nll_sum / static_cast<double>(scored - 1), 2e-5);
  }
}

TEST(Compare, IdenticalStatesGiveExactlyZero) {
  for (const auto& [scored, vocabulary] : {std::pair<size_t, uint32_t>{1, 96}, {7, 2049}, {513, 96}, {700, 1025}}) {
    World world(vocabulary, 3);
    const std::vector<float> states = RandomRows(scored, 64, 9);
    const Divergence got = *world.Compare(states, states, RandomTokens(scored, vocabulary, 6));
    for (const double kl : got.kl) ASSERT_EQ(kl, 0.0);
    EXPECT_EQ(got.MeanKl(), 0.0);
    EXPECT_EQ(got.P99Kl(), 0.0);
    EXPECT_EQ(got.Top1(), 1.0);
    EXPECT_EQ(got.nll, got.ref_nll);
  }
}

TEST(Compare, ThreadsChangeNoBit) {
  const std::vector<float> reference = RandomRows(600, 64, 1);
  const std::vector<float> arm = RandomRows(600, 64, 2, &reference);
  const std::vector<int32_t> tokens = RandomTokens(600, 1500, 5);
  World one(1500, 1);
  World three(1500, 3);
  const Divergence a = *one.Compare(reference, arm, tokens);
  const Divergence b = *three.Compare(reference, arm, tokens);
  EXPECT_EQ(a.kl, b.kl);
  EXPECT_EQ(a.nll, b.nll);
  EXPECT_EQ(a.agree, b.agree);
}

TEST(Compare, OneTokenHasNoTarget) {
  World world(96);
  const std::vector<float> reference = RandomRows(1, 64, 1);
  const Divergence got = *world.Compare(reference, RandomRows(1, 64, 2), {5});
  EXPECT_EQ(got.kl.size(), 1u);
  EXPECT_GT(got.MeanKl(), 0.0);
  EXPECT_TRUE(got.nll.empty());
  EXPECT_TRUE(std::isnan(got.Ppl()));
  EXPECT_TRUE(std::isnan(got.RefPpl()));
}

TEST(Compare, NamesTheTokenAndTheSideThatIsNotFinite) {
  World world(1100);
  const std::vector<float> good = RandomRows(600, 64, 1);
  const std::vector<int32_t> tokens = RandomTokens(600, 1100, 5);
  for (const float broken : {std::nanf(""), std::numeric_limits<float>::infinity(), -3e38f}) {
    for (const size_t token : {0, 300, 599}) {
      std::vector<float> bad = good;
      for (size_t channel = 0; channel < 64; ++channel) bad[token * 64 + channel] = broken;
      const auto arm = world.Compare(good, bad, tokens);
      ASSERT_FALSE(arm.has_value());
      EXPECT_THAT(arm.error().message, HasSubstr(fmt::format("scored token {}: the logits are not finite", token)));
      const auto reference = world.Compare(bad, good, tokens);
      ASSERT_FALSE(reference.has_value());
      EXPECT_THAT(reference.error().message, HasSubstr(fmt::format("scored token {}: the reference's", token)));
    }
  }
}

TEST(Compare, RefusesIdsOutsideTheVocabulary) {
  World world(96);
  const std::vector<float> states = RandomRows(2, 64, 1);
  for (const int32_t token : {96, -1, INT32_MAX}) {
    const auto got = world.Compare(states, states, {1, token});
    ASSERT_FALSE(got.has_value());
    EXPECT_THAT(got.error().message, HasSubstr(fmt::format("token id {} is outside", token)));
  }
}

// The seed of the whole line: PyTorch's mean KL of every quantized arm (tests/parity/README.md) over positions 1 to
// 159.
class ParityCompareTest : public testing::TestWithParam<std::string> {};

TEST_P(ParityCompareTest, MeanKlOfEveryArm) {
  const std::vector<std::pair<std::string, std::string>> arms = {{"affine4g32_k", "k=affine4/g32 v=f32"},
                                                                 {"affine4g32_v", "k=f32 v=affine4/g32"},
                                                                 {"affine4g32_kv", "k=affine4/g32 v=affine4/g32"},
                                                                 {"q4_0_k", "k=q4_0 v=f32"},
                                                                 {"q4_0_v", "k=f32 v=q4_0"},
                                                                 {"q4_0_kv", "k=q4_0 v=q4_0"},
                                                                 {"had_q4_0_k", "k=had+q4_0 v=f32"},
                                                                 {"had_q4_0_v", "k=f32 v=had+q4_0"},
                                                                 {"had_q4_0_kv", "k=had+q4_0 v=had+q4_0"}};
  const ParityModel parity(GetParam());
  ThreadPool pool(2);
  Transformer transformer(parity.model, pool);
  const SpanTokens span = *CutSpan(parity.tokens, {.end = 160, .scored = 159, .context = 1}, std::nullopt);
  const auto scored = std::span(span.tokens).last(159);
  const PrefillRun reference = *RunPrefill(transformer, *ParsePolicy("k=f32 v=f32"), span, 64);
  for (const auto& [name, policy] : arms) {
    const PrefillRun run = *RunPrefill(transformer, *ParsePolicy(policy), span, 64);
    const Divergence got = *Compare(transformer, pool, reference.hidden.data(), run.hidden.data(), scored);
    const nlohmann::json& want = parity.reference["arms"][name];
    EXPECT_NEAR(got.MeanKl() / want["mean_kl"].get<double>(), 1, 1e-3) << name;
    EXPECT_NEAR(got.P99Kl() / want["p99_kl"].get<double>(), 1, 1e-3) << name;
    EXPECT_NEAR(got.Top1(), want["top1_agreement"].get<double>(), 1e-9) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Llama, ParityCompareTest, testing::Values("llama", "llama31"),
                         [](const auto& param_info) { return param_info.param; });

}  // namespace
}  // namespace kvant
