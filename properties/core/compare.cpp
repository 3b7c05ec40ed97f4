// SPDX-License-Identifier: Apache-2.0
#include "properties/core/compare.h"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The smallest real that rounds to infinity: half a unit above the largest finite number.
double overflow_threshold(DType dtype) {
  return max_finite(dtype) + ulp_at(dtype, max_finite(dtype)) / 2;
}

// |got - value| / bound. An exact element has 0, and a wrong one without a ratio has infinity.
double error_over_bound(const Expected& expected, double got, DType dtype) {
  if (expected.is_open) return 0;
  if (!std::isfinite(expected.value) || !std::isfinite(got))
    return is_right(expected, got, dtype) ? 0 : kInfinity;
  const double error = std::abs(got - expected.value);
  if (error == 0) return is_right(expected, got, dtype) ? 0 : kInfinity;
  return expected.bound > 0 ? error / expected.bound : kInfinity;
}

}  // namespace

bool is_right(const Expected& expected, double got, DType dtype) {
  if (expected.is_open) return true;
  if (std::isnan(expected.value)) return std::isnan(got);
  if (std::isinf(expected.value)) return got == expected.value;
  if (expected.is_signed) return got == 0 && std::signbit(got) == std::signbit(expected.value);
  const double threshold = overflow_threshold(dtype);
  if (std::isinf(got)) return std::copysign(1, got) * expected.value + expected.bound >= threshold;
  return std::abs(expected.value) - expected.bound <= threshold &&
         std::abs(got - expected.value) <= expected.bound;
}

void Comparison::add(const Expected& expected, double got, int64_t element, DType dtype) {
  ++count;
  if (expected.is_open) ++open;
  if (!std::isfinite(got)) ++nonfinite;
  const bool right = is_right(expected, got, dtype);
  if (!right) ++wrong;
  if (!expected.is_open && right && (got == expected.value || std::isnan(got))) ++*equal;
  const double ratio =
      right ? error_over_bound(expected, got, dtype) : std::max(1.0, error_over_bound(expected, got, dtype));
  if (!worst || ratio > max_error_over_bound || (ratio == max_error_over_bound && element < worst->element)) {
    max_error_over_bound = ratio;
    worst = WorstElement{element, got, expected.value, expected.bound};
  }
  if (expected.is_open || !std::isfinite(expected.value) || !std::isfinite(got)) return;
  const double exact = expected.exact;
  if (!std::isfinite(exact)) return;
  const double error = got - exact;
  ++finite;
  max_ulp = std::max(max_ulp, std::abs(error) / ulp_at(dtype, exact));
  max_abs = std::max(max_abs, std::abs(error));
  sum_error += error;
  sum_square_error += error * error;
  sum_square_value += exact * exact;
}

void Comparison::merge(const Comparison& other) {
  if (other.worst &&
      (!worst || other.max_error_over_bound > max_error_over_bound ||
       (other.max_error_over_bound == max_error_over_bound && other.worst->element < worst->element))) {
    worst = other.worst;
    max_error_over_bound = other.max_error_over_bound;
  }
  count += other.count;
  wrong += other.wrong;
  open += other.open;
  nonfinite += other.nonfinite;
  equal = equal && other.equal ? std::optional(*equal + *other.equal) : std::nullopt;
  finite += other.finite;
  max_ulp = std::max(max_ulp, other.max_ulp);
  max_abs = std::max(max_abs, other.max_abs);
  sum_error += other.sum_error;
  sum_square_error += other.sum_square_error;
  sum_square_value += other.sum_square_value;
}

std::optional<double> Comparison::rel_l2() const {
  if (sum_square_error == 0) return 0;
  if (sum_square_value == 0) return std::nullopt;
  return std::sqrt(sum_square_error / sum_square_value);
}

std::optional<double> Comparison::largest_error() const {
  if (max_abs == 0) return 0;
  if (sum_square_value == 0) return std::nullopt;
  return max_abs / std::sqrt(sum_square_value / static_cast<double>(finite));
}

double Comparison::bias() const {
  return finite == 0 ? 0 : sum_error / static_cast<double>(finite);
}
double Comparison::rms() const {
  return finite == 0 ? 0 : std::sqrt(sum_square_error / static_cast<double>(finite));
}

}  // namespace assay
