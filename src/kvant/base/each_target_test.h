// A fixture whose tests run once on every SIMD target that this build and CPU have. Test code only.
//
//   using Rows = EachTargetTest;      // or a class derived from it
//   TEST_P(Rows, ...) { ... }
//   INSTANTIATE_TEST_SUITE_P(Targets, Rows, testing::ValuesIn(SupportedTargets()), TargetOfTest);
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"

namespace kvant {

class EachTargetTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const Status forced = ForceTarget(GetParam());
    ASSERT_TRUE(forced.has_value()) << forced.error().message;
    ASSERT_EQ(ActiveTarget(), GetParam());
  }
  void TearDown() override { ASSERT_TRUE(ForceTarget("").has_value()); }
};

inline std::string TargetOfTest(const testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace kvant
