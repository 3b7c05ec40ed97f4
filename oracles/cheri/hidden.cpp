// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/hidden.h"

#include <algorithm>
#include <cmath>

namespace assay::cheri::oracle {

ProductError product_of(const Format& format, double value, double error, const Weights& weights) {
  const double magnitude = std::abs(value) + error;
  if (magnitude == 0) return {0, 0};
  const auto terms = static_cast<double>(weights.columns * format.products);
  double relative = weights.relative + gamma(terms, kAccumulate);
  double variance =
      weights.relative * weights.relative / 3 * weights.certain + kAccumulate * kAccumulate / 18 * terms;
  if (format.is_split) {
    relative += 3 * 0x1p-16 * (1 + 0x1p-7);
    variance += 7.0 / 9 * 0x1p-32 * weights.certain;
  }
  const double underflow = format.is_split ? smallest_subnormal(DType::kBF16) : 0;  // of the low parts
  return {relative * magnitude + underflow, variance * magnitude * magnitude + underflow * underflow / 3};
}

void activate(const Format& format, const Weights& w2, double z, const Doubt& doubt, bool is_doubtful,
              Hidden& row, Unit& unit) {
  if (row.is_nan) return;
  const double error = doubt.error;
  if (!std::isfinite(z)) {
    // An infinite weight. Splitting it makes a NaN of it; so do other paths where y may be 0.
    row.is_open |= format.is_split || is_doubtful;
    unit.value = gelu(z);
    return;
  }
  if (error == 0 && z == 0) return;
  const double stored =
      format.intermediate == DType::kF32 ? 0 : ulp_at(format.intermediate, std::abs(z) + error) / 2;
  const double overflow = format.overflow(false);
  if (std::abs(z) + error + stored >= overflow) {
    row.is_open |= std::abs(z) - error < overflow;
    unit.value = gelu(std::copysign(HUGE_VAL, z));
    return;
  }
  const double g = gelu(z);
  const double slope = gelu_slope(z);
  const double steepest = error + stored > 0 ? gelu_error(z, error + stored, slope) / (error + stored) : 0;
  const double evaluation = 8 * kUnit * std::abs(g) + 4 * kUnit * std::abs(z) + 2 * kUnderflow;
  const double inherited = steepest * (error + stored) + evaluation;
  const double rounding = format.rounding(g, inherited);
  if (std::abs(g) + inherited >= format.overflow(true)) {
    row.is_open |= std::abs(g) - inherited < format.overflow(true);
    unit.value = std::copysign(HUGE_VAL, g);
    return;
  }
  const ProductError product = product_of(format, g, inherited + rounding, w2);
  const double own_squares = rounding * rounding + 3 * product.variance;
  unit.value = g;
  unit.slope = slope;
  unit.error = steepest * error + evaluation;
  unit.common = gelu_error(z, doubt.common, slope);
  unit.common_shared = std::abs(slope) * doubt.common_shared + gelu_remainder(z, doubt.common, slope);
  unit.common_deviation = std::abs(slope) * doubt.common_deviation;
  unit.rest = steepest * doubt.sum + evaluation;
  unit.evaluation = evaluation;
  unit.rest_square = steepest * steepest * doubt.sum_deviation * doubt.sum_deviation;
  unit.own = rounding + product.limit;
  unit.own_square = own_squares;
  unit.storing = steepest * stored;
  unit.storing_bias = gelu_remainder(z, stored, slope);
  unit.own_variance =
      own_squares / 3 + slope * slope * stored * stored / 3 + kUnit * kUnit * (3 * g * g + z * z);
  unit.from_y = slope * slope * doubt.variance;
}

SumError error_of_products(const Hidden& row, std::span<const Kinds::Column> columns, double coherence,
                           int64_t products) {
  double sum = 0, magnitudes = 0;              // of w2 * g
  double inherited = 0, storing = 0, own = 0;  // limits
  double shared = 0, storing_bias = 0;         // of what does not average out
  double deviation = 0;                        // of what kinds have from y, where the errors of all may agree
  double rest_squares = 0, storing_squares = 0, own_squares = 0, variance = 0;
  for (size_t k = 0; k < columns.size(); ++k) {
    const auto& [s, a, q, repeated] = columns[k];
    const Unit& unit = row.kinds[k];
    const double together = s * s;
    const double squares = row.is_repeated ? row.repeats * q : std::max(together, repeated);
    sum += s * unit.value;
    magnitudes += a * std::abs(unit.value);
    inherited += std::min(a * unit.error, std::abs(s) * unit.common + a * unit.rest);
    storing += a * unit.storing;
    own += a * unit.own;
    shared += std::abs(s) * unit.common_shared + a * unit.evaluation;
    storing_bias += a * unit.storing_bias;
    deviation += std::abs(s) * unit.common_deviation;
    rest_squares += squares * unit.rest_square;
    storing_squares += squares * unit.storing * unit.storing;
    own_squares += squares * unit.own_square;
    variance += std::max(together, q) * unit.own_variance + coherence * together * unit.from_y;
  }
  const double of_sum = kAccumulate * kAccumulate * static_cast<double>(products);
  own_squares += row.repeats * of_sum * magnitudes * magnitudes;
  const auto likely = [](double squares) { return limit_of_sum(HUGE_VAL, squares, 1); };
  // Storing z by its limit, or as what averages out.
  double error = inherited + storing + own;
  const auto limit = [&](double stored, double squares) {
    error = std::min({error, inherited + stored + likely(squares),
                      shared + stored + likely(deviation * deviation + rest_squares + squares)});
  };
  limit(storing, own_squares);
  limit(storing_bias, own_squares + storing_squares);
  if (own > 0) error += static_cast<double>(products) * kUnderflow;
  return {.error = error, .variance = variance + of_sum / 9 * sum * sum, .own = own};
}

}  // namespace assay::cheri::oracle
