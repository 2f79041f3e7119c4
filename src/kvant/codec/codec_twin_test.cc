// The fast functions against the readable definition: same bytes, same stats, same f32, on every SIMD target, for every
// codec and head size, on ordinary and on broken values.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/each_target_test.h"
#include "kvant/codec/codec.h"
#include "kvant/codec/test_rows.h"

namespace kvant {
namespace {

// Exactly as large as asked for, so that the address sanitizer sees one byte too many.
template <typename T>
std::unique_ptr<T[]> Exactly(size_t count) {
  return std::unique_ptr<T[]>(new T[count]);
}

constexpr size_t kHeadDims[] = {32, 40, 64, 80, 96, 128, 256};

using CodecTwins = EachTargetTest;

void ExpectTwins(const CodecSpec& spec, const test::NamedRow& row) {
  const size_t elems = row.x.size();
  const size_t bytes = UnitBytes(spec, elems);
  const auto expected = Exactly<std::byte>(bytes);
  const auto packed = Exactly<std::byte>(bytes);
  std::memset(packed.get(), 0xff, bytes);
  EncodeStats expected_stats;
  EncodeStats stats;
  reference::EncodeUnit(spec, row.x.data(), elems, expected.get(), &expected_stats);
  EncodeUnit(spec, row.x.data(), elems, packed.get(), &stats);
  ASSERT_EQ(std::memcmp(packed.get(), expected.get(), bytes), 0) << ToText(spec) << " " << elems << " " << row.name;
  ASSERT_EQ(stats, expected_stats) << ToText(spec) << " " << elems << " " << row.name;
  EXPECT_EQ(stats.values, elems);

  const auto expected_out = Exactly<float>(elems);
  const auto out = Exactly<float>(elems);
  std::memset(out.get(), 0xff, elems * sizeof(float));  // NaN
  reference::DecodeUnit(spec, packed.get(), elems, expected_out.get());
  DecodeUnits(spec, {packed.get(), bytes, 1, elems, 0, elems}, out.get(), elems);
  ASSERT_EQ(std::memcmp(out.get(), expected_out.get(), elems * sizeof(float)), 0)
      << ToText(spec) << " " << elems << " " << row.name;
  if (spec.family == CodecFamily::kF32) return;
  for (size_t index = 0; index < elems; ++index) {
    ASSERT_TRUE(std::isfinite(out[index])) << ToText(spec) << " " << row.name << " " << index;
  }
}

TEST_P(CodecTwins, AgreeBitForBit) {
  size_t compared = 0;
  for (const size_t head_dim : kHeadDims) {
    std::vector<test::NamedRow> rows = test::FiniteRows(head_dim);
    for (test::NamedRow& row : test::BrokenRows(head_dim)) rows.push_back(std::move(row));
    for (const CodecSpec& spec : AllCodecs()) {
      if (!Supports(spec, 1, head_dim)) continue;
      for (const test::NamedRow& row : rows) {
        ExpectTwins(spec, row);
        if (HasFatalFailure()) return;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 50000u);
}

// Scales that meet Dict3's search window in every place: the fast encoder looks at few of the 64 entries.
TEST_P(CodecTwins, AgreeOnDict3Scales) {
  const CodecSpec spec{CodecFamily::kDict3};
  const CounterRng rng(7);
  for (uint64_t trial = 0; trial < 2000; ++trial) {
    test::NamedRow row{"trial " + std::to_string(trial), test::GaussianRow(32, 100 + trial)};
    const float octave = static_cast<float>(40.0 * rng.Uniform(2 * trial) - 22.0);
    const double power = 0.2 + 3.0 * rng.Uniform(2 * trial + 1);  // from nearly constant to one outlier
    for (float& x : row.x) x = std::copysign(std::exp2(octave) * static_cast<float>(std::pow(std::fabs(x), power)), x);
    for (float& x : row.x) x = std::fmin(std::fmax(x, -31000.0f), 31000.0f);
    ExpectTwins(spec, row);
    if (HasFatalFailure()) return;
  }
}

// Any bytes decode to something, the same on every target; scales that are NaN or infinite are left out, because only
// there a payload may differ.
TEST_P(CodecTwins, DecodeForeignBytesAlike) {
  const CounterRng rng(3);
  for (const CodecSpec& spec : AllCodecs()) {
    for (uint64_t trial = 0; trial < 20; ++trial) {
      constexpr size_t kElems = 96;
      if (!Supports(spec, 1, kElems)) continue;
      std::vector<std::byte> bytes(UnitBytes(spec, kElems));
      for (size_t index = 0; index < bytes.size(); ++index) {
        bytes[index] = static_cast<std::byte>(rng.Bits(trial * 1000 + index) & (index % 2 == 1 ? 0xbb : 0xff));
      }
      std::vector<float> expected(kElems);
      std::vector<float> out(kElems);
      reference::DecodeUnit(spec, bytes.data(), kElems, expected.data());
      DecodeUnits(spec, {bytes.data(), bytes.size(), 1, kElems, 0, kElems}, out.data(), kElems);
      for (size_t index = 0; index < kElems; ++index) {
        if (std::isnan(expected[index])) {
          EXPECT_TRUE(std::isnan(out[index])) << ToText(spec);
        } else {
          EXPECT_EQ(out[index], expected[index]) << ToText(spec) << " " << index;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, CodecTwins, testing::ValuesIn(SupportedTargets()), TargetOfTest);

}  // namespace
}  // namespace kvant
