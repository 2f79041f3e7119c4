#include <sys/resource.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/half.h"
#include "kvant/base/parallel.h"
#include "kvant/base/rng.h"
#include "kvant/base/sha256.h"

namespace kvant {
namespace {

TEST(Half, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      EXPECT_EQ(FloatToHalf(value), bits);
    }
  }
}

// Against the definition: the nearest of the two neighbouring halves, ties to the even pattern.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7bffu; ++bits) {
    const double low = HalfToFloat(static_cast<uint16_t>(bits));
    const double high = HalfToFloat(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((low + high) / 2);  // exact: one more mantissa bit
    EXPECT_EQ(FloatToHalf(middle), bits + (bits & 1u)) << bits;
    EXPECT_EQ(FloatToHalf(std::nextafter(middle, 0.0f)), bits) << bits;
    EXPECT_EQ(FloatToHalf(std::nextafter(middle, 1e9f)), bits + 1) << bits;
  }
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.99f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-std::numeric_limits<float>::infinity()), 0xfc00);
}

TEST(Bfloat16, RoundsToNearestEven) {
  EXPECT_EQ(FloatToBfloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBfloat16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even stays
  EXPECT_EQ(FloatToBfloat16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, odd goes up
  EXPECT_TRUE(std::isnan(Bfloat16ToFloat(FloatToBfloat16(std::nanf("")))));
}

TEST(CounterRng, HasTheMomentsOfItsDistributions) {
  const CounterRng rng(7);
  double sum = 0;
  double square = 0;
  double uniform = 0;
  constexpr int kDraws = 200000;
  for (int index = 0; index < kDraws; ++index) {
    const double x = rng.Normal(index);
    sum += x;
    square += x * x;
    uniform += rng.Uniform(index);
  }
  // Five standard errors of each mean.
  EXPECT_NEAR(sum / kDraws, 0.0, 5 / std::sqrt(double{kDraws}));
  EXPECT_NEAR(square / kDraws, 1.0, 5 * std::sqrt(2.0 / kDraws));
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
  EXPECT_NE(CounterRng(7, 1).Bits(0), rng.Bits(0));
}

TEST(ThreadPool, RunsEveryTaskOnceOnEveryCall) {
  for (const size_t threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (size_t tasks = 0; tasks < 200; ++tasks) {
      std::vector<std::atomic<int>> runs(tasks);
      pool.For(tasks, [&](size_t task, size_t worker) {
        ASSERT_LT(worker, threads);
        ++runs[task];
      });
      for (const std::atomic<int>& count : runs) EXPECT_EQ(count.load(), 1);
    }
  }
}

// Loops so short that many workers wake when nothing is left to do: a worker that mixed up two loops would call a body
// that is gone or write to freed memory. The sanitizers see what the values do not.
TEST(ThreadPool, ManyTinyLoopsKeepApart) {
  for (size_t threads = 1; threads <= 8; ++threads) {
    ThreadPool pool(threads);
    constexpr size_t kLoops = 300;
    for (size_t loop = 0; loop < kLoops; ++loop) {
      const size_t tasks = 2 + loop % 5;
      // Plain values: For orders what tasks write before what comes after it.
      const auto written = std::make_unique<size_t[]>(tasks);
      pool.For(tasks, [&written, loop](size_t task, size_t) { written[task] += loop * 8 + task + 1; });
      for (size_t task = 0; task < tasks; ++task) ASSERT_EQ(written[task], loop * 8 + task + 1) << threads;
    }
  }
}

// Whether its workers still look for a first loop, have just left one, or sleep.
TEST(ThreadPool, EndsWhateverItsWorkersDo) {
  for (size_t threads = 1; threads <= 8; ++threads) {
    for (int times = 0; times < 20; ++times) {
      ThreadPool pool(threads);
      std::atomic<size_t> runs = 0;
      if (times % 2 == 1) pool.For(3, [&](size_t, size_t) { ++runs; });
      EXPECT_EQ(runs.load(), times % 2 == 1 ? 3u : 0u);
    }
  }
}

TEST(ThreadPoolDeathTest, RefusesALoopInsideALoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const size_t threads : {1, 2}) {
    EXPECT_DEATH(
        {
          ThreadPool pool(threads);
          pool.For(2, [&](size_t, size_t) { pool.For(1, [](size_t, size_t) {}); });
        },
        "parallel.cc");
  }
}

TEST(ThreadPoolDeathTest, ABodyThatThrowsEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const size_t threads : {1, 2}) {
    EXPECT_DEATH(
        {
          ThreadPool pool(threads);
          pool.For(2, [](size_t, size_t) { throw std::runtime_error("from a body"); });
        },
        "from a body");
  }
}

// FIPS 180-2, appendix B.1 and the empty message.
TEST(Sha256, MatchesPublishedDigests) {
  const std::string abc = "abc";
  EXPECT_EQ(Sha256Hex(std::as_bytes(std::span(abc))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_FALSE(Sha256OfFile("/nonexistent").has_value());
}

TEST(CpuTarget, ForcingProvesWhatRuns) {
  const std::vector<std::string> targets = SupportedTargets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(ActiveTarget(), targets.front());
  for (const std::string& target : targets) {
    ASSERT_TRUE(ForceTarget(target).has_value());
    EXPECT_EQ(ActiveTarget(), target);
    EXPECT_EQ(SupportedTargets(), targets);
    EXPECT_EQ(ActiveTarget(), target);
  }
  EXPECT_FALSE(ForceTarget("Z80").has_value());
  EXPECT_EQ(ActiveTarget(), targets.back());
  ASSERT_TRUE(ForceTarget("").has_value());
  EXPECT_EQ(ActiveTarget(), targets.front());
}

// A process that may map little memory gets few stacks: a sentence, not an exception.
TEST(ThreadPool, SaysWhenThreadsDoNotStart) {
  ASSERT_TRUE(ThreadPool::Create(2).has_value());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map more than any limit
  EXPECT_EXIT(
      {
        rlimit limit;
        limit.rlim_cur = limit.rlim_max = 1u << 30;
        setrlimit(RLIMIT_AS, &limit);
        const auto pool = ThreadPool::Create(1000);
        std::exit(!pool && pool.error().message.find("1000 threads") != std::string::npos ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
#endif
}

}  // namespace
}  // namespace kvant
