// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/stages.h"

#include <algorithm>

#include "kernels/trimul/trimul.h"

namespace assay::trimul::oracle {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kTensorCore = 0x1p-23;
constexpr double kTiny = 0x1p-149;

double factor_unit(const Recipe& recipe) {
  switch (recipe.factor) {
    case Factor::kStored:
      return 0;
    case Factor::kF16:
    case Factor::kTF32:
      return 0x1p-11;
    case Factor::kBF16:
      return 0x1p-8;
    case Factor::kBF16x3:
      return 1.5 * 0x1p-16;
  }
  throw Error("Factor({}) is not a factor", static_cast<int>(recipe.factor));
}

}  // namespace

Units::Units(const Recipe& recipe, std::optional<Stage> only) {
  if (recipe.storage != DType::kF32 || recipe.product != DType::kF32 || recipe.accumulate != DType::kF32)
    throw Error("the bound is derived for storage, products and sums in f32, not {}", recipe.to_string());
  const auto at = [&](Stage stage, double unit) { return !only || *only == stage ? unit : 0; };
  const double factor = factor_unit(recipe), sum = recipe.factor == Factor::kStored ? kUnit : kTensorCore;
  const double storage = recipe.intermediate == DType::kF32 ? 0 : unit_roundoff(recipe.intermediate);
  using enum Stage;
  norm_in = at(kNormIn, kUnit);
  projection_sum = at(kProjections, sum);
  gate = at(kGates, kUnit);
  contraction_sum = at(kContraction, sum);
  norm_out = at(kNormOut, kUnit);
  out_gate = at(kOutGate, kUnit);
  out_sum = at(kOutProjection, sum);
  projection_factor = projection_weight = at(kProjections, factor);
  contraction_factor = at(kContraction, factor);
  out_factor = out_weight = at(kOutProjection, factor);
  left_storage = at(kContraction, factor == storage ? 0 : storage);  // one rounding if they are the same
  hidden_storage = at(kHiddenStorage, storage);
  gate_storage = at(kOutGate, storage);
  tiny_in = at(kNormIn, kTiny);
  tiny_projection = at(kProjections, kTiny);
  tiny_gate = at(kGates, kTiny);
  tiny_contraction = at(kContraction, kTiny);
  tiny_hidden = at(kHiddenStorage, kTiny);
  tiny_norm_out = at(kNormOut, kTiny);
  tiny_out_gate = at(kOutGate, kTiny);
  tiny_out = at(kOutProjection, kTiny);
  underflow_gate = at(kGates, 0x1p-126);
  underflow_out_gate = at(kOutGate, 0x1p-126);
  is_scaled = recipe.factor == Factor::kF16 || recipe.intermediate == DType::kF16;
  is_split = recipe.factor == Factor::kBF16x3;
  products = is_split ? 3 : 1;
}

Statistics statistics_of(const double* values, int64_t count) {
  Statistics result;
  if (count == 0) return result;
  const double n = static_cast<double>(count), first = values[0];
  double lowest = first, highest = first, sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    lowest = std::min(lowest, values[i]);
    highest = std::max(highest, values[i]);
    sum += values[i] - first;
  }
  result.range = highest - lowest;
  result.mean = first + sum / n;
  double rest = 0;
  for (int64_t i = 0; i < count; ++i) rest += values[i] - result.mean;
  result.mean = result.range == 0 ? first : result.mean + rest / n;
  for (int64_t i = 0; i < count; ++i)
    result.variance += (values[i] - result.mean) * (values[i] - result.mean);
  result.variance /= n;
  result.sigma = std::sqrt(result.variance + kEpsilon);
  return result;
}

Projection::Projection(const ConstTensorView& view) : rows(view.shape[0]), columns(view.shape[1]) {
  for (int64_t h = 0; h < rows; ++h) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double value = static_cast<const float*>(view.data)[h * view.strides[0] + c * view.strides[1]];
      values.push_back(value);
      squares.push_back(value * value);
      sum += value * value;
      largest = std::max(largest, std::abs(value));
      has_infinity |= !std::isfinite(value);
    }
    norms.push_back(std::sqrt(sum));
  }
}

bool Projection::has_equal_rows() const {
  for (size_t i = static_cast<size_t>(columns); i < values.size(); ++i) {
    if (values[i] != values[i - static_cast<size_t>(columns)]) return false;
  }
  return true;
}

double sigmoid(double g) {
  return g >= 0 ? 1 / (1 + std::exp(-g)) : std::exp(g) / (1 + std::exp(g));
}

double sigmoid_slope(double g, double error) {
  const double a = std::exp(-std::max(std::abs(g) - error, 0.0));
  return a / ((1 + a) * (1 + a));
}

}  // namespace assay::trimul::oracle
