#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "kvant/base/cpu_target.h"
#include "kvant/base/rng.h"
#include "kvant/tensor/matrix_product.h"

namespace kvant {
namespace {

struct Problem {
  size_t rows, columns, depth;
  std::vector<float> x, w;

  Problem(size_t rows_in, size_t columns_in, size_t depth_in)
      : rows(rows_in), columns(columns_in), depth(depth_in), x(rows_in * depth_in), w(columns_in * depth_in) {
    const CounterRng rng(rows * 1000003 + columns * 1009 + depth);
    for (size_t index = 0; index < x.size(); ++index) x[index] = static_cast<float>(rng.Normal(index));
    for (size_t index = 0; index < w.size(); ++index) w[index] = static_cast<float>(rng.Normal(index + (1u << 30)));
  }

  // The padding between rows of x and of the result is NaN: touching it would show.
  std::vector<float> Run(size_t threads, size_t first_row, size_t row_count, bool add = false) const {
    ThreadPool pool(threads);
    WorkerScratch scratch;
    const size_t stride = PaddedStride(depth);
    std::vector<float> padded(row_count * stride, std::nanf(""));
    for (size_t row = 0; row < row_count; ++row) {
      std::memcpy(&padded[row * stride], &x[(first_row + row) * depth], depth * sizeof(float));
    }
    const size_t out_stride = columns + 5;
    std::vector<float> out(row_count * out_stride, std::nanf(""));
    if (add) {
      for (size_t row = 0; row < row_count; ++row) std::fill_n(&out[row * out_stride], columns, 1.0f);
    }
    const ProductTerm term{
        .expand = [&](size_t row, float* values) { std::memcpy(values, &w[row * depth], depth * sizeof(float)); },
        .columns = columns,
        .out = out.data(),
        .out_stride = out_stride,
        .add = add};
    MatrixProduct({padded.data(), stride, row_count, depth}, std::span(&term, 1), pool, scratch);
    std::vector<float> dense;
    for (size_t row = 0; row < row_count; ++row) {
      dense.insert(dense.end(), &out[row * out_stride], &out[row * out_stride] + columns);
      for (size_t pad = columns; pad < out_stride; ++pad) EXPECT_TRUE(std::isnan(out[row * out_stride + pad]));
    }
    return dense;
  }
};

class MatrixProductTest : public testing::Test {
 protected:
  ~MatrixProductTest() override { EXPECT_TRUE(ForceTarget("").has_value()); }
};

// An f32 chain of n terms errs by at most n * eps * sum |a b|; random signs stay far below, so half of it is tight
// enough to catch a lost term and loose enough never to flake.
TEST_F(MatrixProductTest, MatchesDoubleOnEveryTarget) {
  for (const std::string& target : SupportedTargets()) {
    ASSERT_TRUE(ForceTarget(target).has_value());
    ASSERT_EQ(ActiveTarget(), target);
    for (const auto& [rows, columns, depth] : {std::tuple<size_t, size_t, size_t>{1, 1, 1},
                                               {13, 33, 7},
                                               {12, 32, 64},
                                               {25, 100, 96},
                                               {5, 16, 577},
                                               {31, 65, 40}}) {
      const Problem problem(rows, columns, depth);
      for (const bool add : {false, true}) {
        const std::vector<float> got = problem.Run(2, 0, rows, add);
        for (size_t row = 0; row < rows; ++row) {
          for (size_t column = 0; column < columns; ++column) {
            double want = 0;
            double magnitude = 0;
            for (size_t k = 0; k < depth; ++k) {
              const double term = double{problem.x[row * depth + k]} * problem.w[column * depth + k];
              want += term;
              magnitude += std::abs(term);
            }
            if (add) want += 1.0;
            EXPECT_NEAR(got[row * columns + column], want, 0x1p-24 * (depth / 2.0 + 2) * (magnitude + 1))
                << target << " " << rows << "x" << columns << "x" << depth;
          }
        }
      }
    }
  }
}

TEST_F(MatrixProductTest, BitsDoNotDependOnRowsOrThreads) {
  const Problem problem(61, 70, 200);
  for (const std::string& target : SupportedTargets()) {
    ASSERT_TRUE(ForceTarget(target).has_value());
    const std::vector<float> whole = problem.Run(1, 0, problem.rows);
    for (const size_t threads : {2, 3}) EXPECT_EQ(problem.Run(threads, 0, problem.rows), whole) << target;
    for (const size_t chunk : {1, 2, 7, 8, 12, 13}) {
      for (size_t row = 0; row < problem.rows; row += chunk) {
        const size_t count = std::min(chunk, problem.rows - row);
        const std::vector<float> part = problem.Run(2, row, count);
        ASSERT_EQ(std::memcmp(part.data(), &whole[row * problem.columns], part.size() * sizeof(float)), 0)
            << target << " chunk " << chunk << " row " << row;
      }
    }
  }
}

TEST_F(MatrixProductTest, TargetsWithFusedMultiplyAddAgreeToTheBit) {
  const Problem problem(29, 83, 333);
  std::vector<float> first;
  for (const std::string& target : SupportedTargets()) {
    if (target == "SCALAR") continue;
    ASSERT_TRUE(ForceTarget(target).has_value());
    const std::vector<float> got = problem.Run(2, 0, problem.rows);
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << target;
  }
}

TEST_F(MatrixProductTest, TermsShareOneInput) {
  const Problem problem(9, 48, 32);
  ThreadPool pool(2);
  WorkerScratch scratch;
  std::vector<float> left(9 * 16);
  std::vector<float> right(9 * 32);
  const auto expand_from = [&](size_t offset) {
    return [&problem, offset](size_t row, float* values) {
      std::memcpy(values, &problem.w[(row + offset) * 32], 32 * sizeof(float));
    };
  };
  const ProductTerm terms[] = {{.expand = expand_from(0), .columns = 16, .out = left.data(), .out_stride = 16},
                               {.expand = expand_from(16), .columns = 32, .out = right.data(), .out_stride = 32}};
  MatrixProduct({problem.x.data(), 32, 9, 32}, terms, pool, scratch);
  const std::vector<float> whole = problem.Run(1, 0, 9);
  for (size_t row = 0; row < 9; ++row) {
    for (size_t column = 0; column < 48; ++column) {
      EXPECT_EQ(column < 16 ? left[row * 16 + column] : right[row * 32 + column - 16], whole[row * 48 + column]);
    }
  }
}

}  // namespace
}  // namespace kvant
