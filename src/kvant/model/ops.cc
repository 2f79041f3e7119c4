#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kvant/model/ops.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>
#include <cmath>

#include "kvant/model/ops.h"

HWY_BEFORE_NAMESPACE();
namespace kvant {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using Tag = hn::CappedTag<float, 16>;

// exp(x) for |x| <= 87, within 2 ulp: x = n ln 2 + r, with ln 2 in two parts so that n times the first is exact
// (Cody, Waite 1980) and the polynomial of prefill.cc's 2^r rescaled to e^r: Taylor to r^7, error 1e-9 on |r| <= 0.35.
HWY_INLINE hn::Vec<Tag> Exp(hn::Vec<Tag> x) {
  const Tag d;
  const hn::RebindToSigned<Tag> di;
  const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  auto p = hn::Set(d, 1.0f / 5040);
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 720));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 120));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 24));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f / 6));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  return hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, n))));
}

void SiluProductRow(float* HWY_RESTRICT gate, const float* HWY_RESTRICT up, size_t width) {
  const Tag d;
  const size_t lanes = hn::Lanes(d);
  const auto one = hn::Set(d, 1.0f);
  const auto silu_product = [&](hn::Vec<Tag> g, hn::Vec<Tag> u) {
    // Beyond 87 the quotient is g, below -87 it is less than 2e-36 in size and taken as 0.
    const auto minus_g = hn::Min(hn::Max(hn::Neg(g), hn::Set(d, -87.0f)), hn::Set(d, 87.0f));
    const auto silu = hn::Div(g, hn::Add(one, Exp(minus_g)));
    return hn::Mul(hn::IfThenElseZero(hn::Ge(g, hn::Set(d, -87.0f)), silu), u);
  };
  size_t channel = 0;
  for (; channel + lanes <= width; channel += lanes) {
    hn::StoreU(silu_product(hn::LoadU(d, gate + channel), hn::LoadU(d, up + channel)), d, gate + channel);
  }
  for (; channel < width; ++channel) {
    gate[channel] = hn::GetLane(silu_product(hn::Set(d, gate[channel]), hn::Set(d, up[channel])));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kvant
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvant {
HWY_EXPORT(SiluProductRow);

namespace {
constexpr size_t kTaskRows = 16;

template <typename Body>
void ForRows(size_t rows, ThreadPool& pool, const Body& body) {
  pool.For((rows + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    for (size_t row = task * kTaskRows; row < std::min(rows, (task + 1) * kTaskRows); ++row) body(row);
  });
}

// Sixteen partial sums, then in ascending order: vectorizable, and the same on every target.
float SumOfSquares(const float* x, size_t width) {
  float partial[16] = {};
  size_t channel = 0;
  for (; channel + 16 <= width; channel += 16) {
    for (size_t lane = 0; lane < 16; ++lane) partial[lane] += x[channel + lane] * x[channel + lane];
  }
  for (; channel < width; ++channel) partial[channel % 16] += x[channel] * x[channel];
  float sum = 0;
  for (const float lane : partial) sum += lane;
  return sum;
}
}  // namespace

void RmsNorm(const RowsView& x, std::span<const float> weight, float epsilon, const RowsView& out, ThreadPool& pool) {
  ForRows(x.rows, pool, [&](size_t row) {
    const float* from = x.Row(row);
    float* to = out.Row(row);
    const float scale = 1.0f / std::sqrt(SumOfSquares(from, x.width) / static_cast<float>(x.width) + epsilon);
    for (size_t channel = 0; channel < x.width; ++channel) to[channel] = from[channel] * scale * weight[channel];
  });
}

void SiluProduct(const RowsView& gate, const RowsView& up, ThreadPool& pool) {
  const auto product = HWY_DYNAMIC_DISPATCH(SiluProductRow);
  ForRows(gate.rows, pool, [&](size_t row) { product(gate.Row(row), up.Row(row), gate.width); });
}

void RotaryTable::Reserve(size_t positions) {
  const size_t present = frequencies_.empty() ? positions : cosines_.size() / frequencies_.size();
  for (size_t position = present; position < positions; ++position) {
    for (const float frequency : frequencies_) {
      const float angle = static_cast<float>(position) * frequency;
      cosines_.push_back(static_cast<float>(std::cos(static_cast<double>(angle))));
      sines_.push_back(static_cast<float>(std::sin(static_cast<double>(angle))));
    }
  }
}

void ApplyRotary(const RowsView& x, size_t head_dim, std::span<const int64_t> positions, const RotaryTable& table,
                 ThreadPool& pool) {
  const size_t pairs = table.pairs();
  ForRows(x.rows, pool, [&](size_t row) {
    const float* cosines = table.Cosines(static_cast<size_t>(positions[row]));
    const float* sines = table.Sines(static_cast<size_t>(positions[row]));
    for (size_t head_begin = 0; head_begin < x.width; head_begin += head_dim) {
      float* __restrict first = x.Row(row) + head_begin;
      float* __restrict second = first + pairs;
      for (size_t pair = 0; pair < pairs; ++pair) {
        const float a = first[pair];
        const float b = second[pair];
        first[pair] = a * cosines[pair] - b * sines[pair];
        second[pair] = b * cosines[pair] + a * sines[pair];
      }
    }
  });
}

}  // namespace kvant
#endif  // HWY_ONCE
