// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/stages.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/trimul/trimul.h"
#include "oracles/core/bound.h"
#include "oracles/core/read.h"
#include "oracles/trimul/alike.h"
#include "oracles/trimul/lanes.h"

namespace assay::trimul::oracle {
namespace {

constexpr double kUnit = 0x1p-24;
constexpr double kTiny = 0x1p-149;

int factor_bits_of(Factor factor) {
  switch (factor) {
    case Factor::kStored:
      return 53;
    case Factor::kF16:
    case Factor::kTF32:
    case Factor::kTF32x3:
      return 11;
    case Factor::kBF16:
    case Factor::kBF16x3:
      return 8;
  }
  throw Error("Factor({}) is not a factor", static_cast<int>(factor));
}

bool is_split_factor(Factor factor) {
  return factor == Factor::kBF16x3 || factor == Factor::kTF32x3;
}

// Of one part of that many bits, or of two parts and what products leave out.
double factor_unit(Factor factor) {
  if (factor == Factor::kStored) return 0;
  const int bits = factor_bits_of(factor);
  return is_split_factor(factor) ? 1.5 * std::ldexp(1.0, -2 * bits) : std::ldexp(1.0, -bits);
}

// Half of the smallest number of the formats of factors and of what lies between the steps; of f32, sums have it.
double lost_of(const Recipe& recipe) {
  if (recipe.factor == Factor::kBF16 || recipe.factor == Factor::kBF16x3 ||
      recipe.intermediate == DType::kBF16)
    return 0x1p-134;
  return recipe.factor == Factor::kStored ? 0 : 0x1p-137;
}

}  // namespace

Units::Units(const Recipe& recipe, std::optional<Stage> only) {
  if (recipe.storage != DType::kF32 || recipe.product != DType::kF32 || recipe.accumulate != DType::kF32)
    throw Error("the bound is derived for storage, products and sums in f32, not {}", recipe.to_string());
  const auto at = [&](Stage stage, double unit) { return !only || *only == stage ? unit : 0; };
  const double factor = factor_unit(recipe.factor),
               sum = recipe.factor == Factor::kStored ? kUnit : kTensorCoreUnit;
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
  is_split = is_split_factor(recipe.factor);
  products = is_split ? 3 : 1;
  factor_bits = factor_bits_of(recipe.factor);
  storage_bits = recipe.intermediate == DType::kF32   ? 53
                 : recipe.intermediate == DType::kF16 ? factor_bits_of(Factor::kF16)
                                                      : factor_bits_of(Factor::kBF16);
  lost = is_scaled ? 0 : lost_of(recipe);
  sigmoid = recipe.factor == Factor::kF16 ? 5 : 4;
  norm_mean = at(kNormOut, recipe.intermediate == DType::kF32 ? 0 : kUnit);
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

// Of a format of f32's range.
bool rounds_to_infinity(int bits, double value) {
  return std::abs(value) >= 0x1p128 - std::ldexp(1.0, 127 - bits);
}

Projection::Projection(const ConstTensorView& view, int factor_bits)
    : rows(view.shape[0]), columns(view.shape[1]) {
  const auto channels = static_cast<size_t>(columns);
  const size_t groups = (static_cast<size_t>(rows) + kGroupRows - 1) / kGroupRows;
  for (auto* all : {&grouped, &squares, &rounded}) all->assign(groups * channels * kGroupRows, 0);
  for (int64_t h = 0; h < rows; ++h) {
    const size_t row = static_cast<size_t>(h),
                 first = row / kGroupRows * channels * kGroupRows + row % kGroupRows;
    double sum = 0;
    std::vector<double> magnitudes;  // of those that are rounded
    Alike alike(factor_bits);
    const std::vector<double> weights = Reader(view).all({h});
    for (size_t c = 0; c < channels; ++c) {
      const double value = weights[c];
      const bool is_rounded = !std::isnan(value) && !has_bits(value, factor_bits);
      const size_t at = first + c * kGroupRows;
      if (is_rounded) magnitudes.push_back(std::abs(value));
      alike.add(value);
      values.push_back(value);
      grouped[at] = value;
      squares[at] = value * value;
      rounded[at] = is_rounded ? value * value : 0;
      sum += value * value;
      largest = std::max(largest, std::abs(value));
      is_open |= std::isfinite(value) && rounds_to_infinity(factor_bits, value);
    }
    norms.push_back(std::sqrt(sum));
    const double repeats = std::max(most_repeats(magnitudes), growth(alike.kappa()));
    for (size_t c = 0; c < channels; ++c) rounded[first + c * kGroupRows] *= repeats;
  }
}

Projection::Projection(const ConstTensorView& view, int factor_bits, const std::vector<double>& weight,
                       const std::vector<double>& bias)
    : Projection(view, factor_bits) {
  for (int64_t h = 0; h < rows; ++h) {
    double with_weight = 0, with_bias = 0, magnitudes = 0, squared = 0;
    for (int64_t c = 0; c < columns; ++c) {
      const double value = values[static_cast<size_t>(h * columns + c)];
      const double product = value * weight[static_cast<size_t>(c)];
      with_weight += product;
      magnitudes += std::abs(product);
      squared += product * product;
      with_bias += value * bias[static_cast<size_t>(c)];
    }
    weighted.push_back(with_weight);
    biased.push_back(with_bias);
    absolute.push_back(magnitudes);
    root.push_back(std::sqrt(squared));
  }
}

bool Projection::has_equal_rows() const {
  for (size_t i = static_cast<size_t>(columns); i < values.size(); ++i) {
    if (values[i] != values[i - static_cast<size_t>(columns)]) return false;
  }
  return true;
}

float not_below(double limit) {
  if (limit == 0) return 0;
  const double above = limit * (1 + 0x1p-23) + 0x1p-150;
  const float infinity = std::numeric_limits<float>::infinity();
  return above <= std::numeric_limits<float>::max() ? static_cast<float>(above) : infinity;
}

double repeats_of(const Row& left, const Row& right) {
  std::vector<double> signatures = left.signatures;
  signatures.insert(signatures.end(), right.signatures.begin(), right.signatures.end());
  return most_repeats(signatures);
}

bool has_bits(double value, int bits) {
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), bits);
  return scaled == std::trunc(scaled);
}

double distance_from(int bits, double value) {
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), bits);
  return std::ldexp(std::abs(scaled - std::round(scaled)), exponent - bits);
}

double sigmoid(double g) {
  return g >= 0 ? 1 / (1 + std::exp(-g)) : std::exp(g) / (1 + std::exp(g));
}

double sigmoid_slope(double g, double error) {
  const double a = std::exp(-std::max(std::abs(g) - error, 0.0));
  return a / ((1 + a) * (1 + a));
}

namespace {

// Of a group of rows, in a vector that GCC does not find itself where sums hang on each other.
using Vector [[gnu::vector_size(kGroupRows * sizeof(double))]] = double;

[[gnu::always_inline]] inline void load(Vector& vector, const double* weights) {
  std::memcpy(&vector, weights, sizeof vector);
}

// Of the weights of a group, over c.
struct ProjectionSums {
  PartialSums<Vector> p;
  Vector own{};
  PartialSums<double> of_row(size_t row) const {
    return {p.value[row], p.all[row], p.squares[row], p.term_squares[row]};
  }
};
ASSAY_VECTORS void projection_sums(const double* weights, const Edge& e, ProjectionSums& to) {
  ProjectionSums sums;
  for (size_t c = 0; c < e.xn.size(); ++c) {
    Vector weight;
    load(weight, weights + c * kGroupRows);
    const Vector weight_square = weight * weight;
    sums.p.add(weight * e.xn[c]);
    sums.p.term_squares += weight_square * e.squares[c];
    sums.own += weight_square * e.own[c];
  }
  to = sums;
}

ASSAY_VECTORS void weighted_sums(const double* weights, const std::vector<double>& values, Vector& to) {
  Vector sums{};
  for (size_t c = 0; c < values.size(); ++c) {
    Vector weight;
    load(weight, weights + c * kGroupRows);
    sums += weight * values[c];
  }
  to = sums;
}

}  // namespace

std::vector<Value> project(const Projection& w, const Edge& e, const Units& units) {
  const double n = static_cast<double>(w.columns), terms = n * units.products;
  const bool has_weights = units.projection_weight > 0;
  std::vector<Value> values(static_cast<size_t>(w.rows));
  for (size_t first = 0; first < values.size(); first += kGroupRows) {
    const size_t at = first * e.xn.size();
    ProjectionSums sums;
    Vector rounded{}, fixed{};
    projection_sums(&w.grouped[at], e, sums);
    if (has_weights) weighted_sums(&w.rounded[at], e.squares, rounded);
    if (!e.fixed.empty()) weighted_sums(&w.squares[at], e.fixed, fixed);
    for (size_t row = 0; row < kGroupRows && first + row < values.size(); ++row) {
      const size_t h = first + row;
      const PartialSums<double> of_row = sums.of_row(row);
      const double p = of_row.value, m2 = m_squared(of_row, n);
      Value& to = values[h];
      to.value = p;
      to.is_open = w.norms[h] * e.norm >= kOverflow && std::isfinite(w.norms[h] * e.norm);
      to.lost = e.shared * std::abs(w.weighted[h]) + e.rho * std::abs(p - w.biased[h]) +
                e.differences * w.absolute[h] + e.scaled * w.root[h] +
                e.added * std::sqrt(of_row.term_squares) + terms * units.projection_sum * std::sqrt(m2);
      // xn may be something else where its exact value is 0.
      if (w.norms[h] > 0) to.lost += terms * units.tiny_projection + e.underflow * w.norms[h];
      to.s = e.repeats * sums.own[row];
      if (!has_weights) continue;
      if (w.norms[h] > 0) to.lost += units.lost_weight(w.largest) * std::sqrt(n) * e.norm;
      to.weights = square(units.projection_weight) * rounded[row] + e.repeats * fixed[row];
    }
  }
  return values;
}

ASSAY_VECTORS double m_squared_of_products(const double* left, const double* right, size_t n,
                                           double term_squares) {
  constexpr size_t kMany = 256;
  static_assert(kLanes == 8, "28 below is the sum of 1 to 7");
  PartialSums<double> sums{.term_squares = term_squares};
  const double terms = static_cast<double>(n);
  if (n < kMany) {
    for (size_t k = 0; k < n; ++k) sums.add(left[k] * right[k]);
    return m_squared(sums, terms);
  }
  size_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    Lanes products;
    for (size_t lane = 0; lane < kLanes; ++lane) products[lane] = left[k + lane] * right[k + lane];
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) products[lane] += products[lane + half];
    }
    sums.add(products[0]);
  }
  double rest = 0;
  for (; k < n; ++k) rest += left[k] * right[k];
  if (n % kLanes > 0) sums.add(rest);
  // Each of them stands for eight terms, the last one for eight at most.
  const auto known = static_cast<double>((n + kLanes - 1) / kLanes);
  const double mean = mean_square(sums, known) * known * static_cast<double>(kLanes) / terms;
  const double of_sums = square(std::sqrt(mean) + std::sqrt(28 * term_squares / terms));
  return std::max(square(sums.value) + term_squares, of_sums);
}

double error_of_projection(const Value& value) {
  return kLambda * (std::sqrt(2 * value.s) + std::sqrt(value.alike()));
}

Gate gate_of(const Value& g, const Units& units, double unit, double underflow) {
  const double value = sigmoid(g.value);
  const double relative = units.sigmoid * unit + (8 + 2 * std::abs(g.value)) * unit * (1 - value);
  const double own = std::isfinite(g.value) ? relative * value : 0;
  return {value, std::isfinite(g.value) ? sigmoid_slope(g.value, error_of_projection(g)) : 0, square(own),
          underflow};
}

std::vector<double> edge_of(const Question& question, int64_t b, int64_t i, int64_t k) {
  return Reader(question.inputs[kX]).all({b, i, k});
}

double mask_of(const Question& question, int64_t b, int64_t i, int64_t k) {
  const ConstTensorView& mask = question.inputs[kMask];
  return mask.shape[3] == 0 ? 1 : Reader(mask)({b, i, k, 0});
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

double norm_of(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value * value;
  return std::sqrt(sum);
}

}  // namespace assay::trimul::oracle
