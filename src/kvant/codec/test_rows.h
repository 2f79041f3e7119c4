// Rows of values for codec tests: ordinary ones and those that break codecs. Test code only.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "kvant/base/half.h"
#include "kvant/base/rng.h"

namespace kvant::test {

struct NamedRow {
  std::string name;
  std::vector<float> x;
};

inline std::vector<float> GaussianRow(size_t elems, uint64_t seed, float scale = 1.0f) {
  const CounterRng rng(seed);
  std::vector<float> x(elems);
  for (size_t index = 0; index < elems; ++index) x[index] = scale * static_cast<float>(rng.Normal(index));
  return x;
}

// Everything finite and within +-65504.
inline std::vector<NamedRow> FiniteRows(size_t elems) {
  std::vector<NamedRow> rows;
  const CounterRng rng(99);
  for (uint64_t seed = 1; seed <= 6; ++seed) rows.push_back({"gaussian", GaussianRow(elems, seed)});
  for (int decade = -9; decade <= 4; ++decade) {
    rows.push_back({"gaussian 1e" + std::to_string(decade), GaussianRow(elems, 20, std::pow(10.0f, decade - 0.6f))});
  }
  rows.push_back({"zeros", std::vector<float>(elems, 0.0f)});
  for (const float constant : {1.0f, -1.0f, 0.1f, -7e-6f, 65504.0f, -65504.0f, 1e-8f, 1e-30f}) {
    rows.push_back({"constant", std::vector<float>(elems, constant)});
  }
  for (const float low : {-65504.0f, -1.0f, 0.0f, 1e-7f, 300.25f}) {  // a whole range from end to end
    std::vector<float> x(elems);
    for (size_t index = 0; index < elems; ++index) x[index] = low + static_cast<float>(index % 32) * 0.25f;
    rows.push_back({"ramp", x});
    for (size_t index = 0; index < elems; ++index) x[index] = index % 2 == 0 ? low : -low;
    rows.push_back({"two values", x});
  }
  for (const float outlier : {8.0f, -8.0f, 900.0f, -30000.0f, 65504.0f}) {
    std::vector<float> x = GaussianRow(elems, 31);
    x[elems / 3] = outlier;
    rows.push_back({"outlier", x});
  }
  // Ties: multiples of half a step, exact in every format, with the extremes that make the step 1.
  for (int bits = 1; bits <= 8; ++bits) {
    std::vector<float> x(elems);
    const int top = (1 << bits) - 1;
    for (size_t index = 0; index < elems; ++index) {
      x[index] = 0.5f * static_cast<float>(rng.Below(bits * 1000 + index, static_cast<uint64_t>(2 * top + 1)));
      if (index % 8 == 0) x[index] = 0.0f;
      if (index % 8 == 1) x[index] = static_cast<float>(top);
    }
    rows.push_back({"ties affine", x});
    const float half = static_cast<float>(1 << (bits - 1));
    for (size_t index = 0; index < elems; ++index) x[index] -= half - 0.5f * static_cast<float>(index % 2);
    rows.push_back({"ties around zero", x});
    for (size_t index = 0; index < elems; index += 8) {
      x[index] = index % 16 == 0 ? half : -half;
      x[index + 1] = -x[index];
    }
    rows.push_back({"extremes of both signs", x});
  }
  std::vector<float> zeros_of_both_signs(elems);
  for (size_t index = 0; index < elems; ++index) zeros_of_both_signs[index] = index % 3 == 0 ? -0.0f : 0.0f;
  rows.push_back({"+-0", zeros_of_both_signs});
  std::vector<float> zero_minimum(elems);
  for (size_t index = 0; index < elems; ++index) {
    zero_minimum[index] = index % 3 == 0 ? -0.0f : static_cast<float>(index % 5);
    if (index % 7 == 1) zero_minimum[index] = 0.0f;
  }
  rows.push_back({"+-0 as minimum", zero_minimum});
  std::vector<float> subnormal(elems);
  for (size_t index = 0; index < elems; ++index) {
    subnormal[index] = std::numeric_limits<float>::denorm_min() * static_cast<float>(rng.Below(index, 40)) *
                       (index % 2 == 0 ? 1.0f : -1.0f);
  }
  rows.push_back({"f32 subnormals", subnormal});
  std::vector<float> half_subnormal(elems);
  for (size_t index = 0; index < elems; ++index) {
    half_subnormal[index] = HalfToFloat(static_cast<uint16_t>(rng.Below(index, 64) | (index % 2 << 15)));
  }
  rows.push_back({"half subnormals", half_subnormal});
  std::vector<float> decades(elems);
  for (size_t index = 0; index < elems; ++index) {
    decades[index] = static_cast<float>(rng.Normal(index)) * std::pow(10.0f, static_cast<float>(index % 12) - 8.0f);
  }
  rows.push_back({"mixed decades", decades});
  std::vector<float> big = GaussianRow(elems, 44, 20000.0f);
  for (float& x : big) x = std::fmin(std::fmax(x, -65504.0f), 65504.0f);
  rows.push_back({"up to 65504", big});
  return rows;
}

// What no cache should ever hold.
inline std::vector<NamedRow> BrokenRows(size_t elems) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float max = std::numeric_limits<float>::max();
  std::vector<NamedRow> rows;
  for (const float scale : {66000.0f, 1e5f, 1e6f, 1e20f, 1e37f}) {
    rows.push_back({"gaussian beyond half", GaussianRow(elems, 50, scale)});
    rows.push_back({"constant beyond half", std::vector<float>(elems, scale)});
    rows.push_back({"constant beyond half", std::vector<float>(elems, -scale)});
  }
  for (const float one : {65510.0f, -65519.0f, 65520.0f, 1e5f, -6e5f, max, -max, inf, -inf, nan, -nan}) {
    std::vector<float> x = GaussianRow(elems, 51);
    x[5] = one;
    rows.push_back({"one " + std::to_string(one), x});
    rows.push_back({"all " + std::to_string(one), std::vector<float>(elems, one)});
  }
  std::vector<float> mixed = GaussianRow(elems, 52);
  for (size_t index = 0; index < elems; ++index) {
    const float values[8] = {inf, -inf, nan, max, -max, 0.0f, -0.0f, 1e-40f};
    if (index % 3 == 0) mixed[index] = values[index / 3 % 8];
  }
  rows.push_back({"all kinds", mixed});
  return rows;
}

}  // namespace kvant::test
