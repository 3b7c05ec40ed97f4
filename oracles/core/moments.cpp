// SPDX-License-Identifier: Apache-2.0
// What an Arithmetic makes of an example: means, variance, normalised values. Their derivations
// stand at the declarations.
#include <algorithm>

#include "oracles/core/arithmetic.h"
#include "oracles/core/bound.h"

namespace assay {
namespace {

// The sums over a row that its moments need.
struct Spread {
  explicit Spread(const Row& values) {
    for (size_t i = 0; i < values.size; ++i) {
      const Ball x = values[i];
      is_open |= x.is_open();
      is_nan |= !std::isfinite(x.mid);
      differences += x.mid - values.mid[0];
      radii += x.radius;
      low = std::min(low, x.mid - x.radius);
      high = std::max(high, x.mid + x.radius);
    }
  }
  // If they are not finite balls.
  Ball special() const { return is_nan ? Ball{kNan, 0} : Ball::open(); }
  double range() const { return high - low; }

  double differences = 0, radii = 0, low = HUGE_VAL, high = -HUGE_VAL;
  bool is_open = false, is_nan = false;
};

}  // namespace

Ball Arithmetic::constant(double value) const {
  if (mode_ == Mode::kSampled) return {seed_ % 2 == 0 ? value : static_cast<float>(value), 0};
  return {value, is_f32(value) ? 0 : unit() * std::abs(value)};
}

Ball Arithmetic::mean_of_products(const Row& a, const Row& b) const {
  double sum = 0, magnitudes = 0, inherited = 0, largest = 0;
  bool is_open = false;
  for (size_t i = 0; i < a.size; ++i) {
    const Ball x = a[i], y = b[i];
    is_open |= x.is_open() || y.is_open();
    sum += x.mid * y.mid;
    magnitudes += std::abs(x.mid) + x.radius;
    inherited += std::abs(x.mid) * y.radius + x.radius * (std::abs(y.mid) + y.radius);
    largest = std::max(largest, std::abs(y.mid) + y.radius);
  }
  if (!std::isfinite(sum)) return {kNan, 0};
  if (is_open) return Ball::open();
  const auto n = static_cast<double>(a.size);
  const double value = sum / n;
  if (mode_ == Mode::kExact) return {value, 0};
  if (mode_ == Mode::kSampled) return {static_cast<float>(value), 0};
  const double of_sum = inherited / n + in_f64(a.size) * 3 * largest * magnitudes / n;
  const double radius = (of_sum + unit() * (std::abs(value) + of_sum)) * kMargin;
  return {value, value == 0 && radius == 0 ? 0 : radius + underflow()};
}

Ball Arithmetic::total(const Row& sums) const {
  double value = 0, magnitudes = 0, radii = 0;
  bool is_open = false;
  for (size_t i = 0; i < sums.size; ++i) {
    const Ball x = sums[i];
    is_open |= x.is_open();
    value += x.mid;
    magnitudes += std::abs(x.mid);
    radii += x.radius;
  }
  if (std::isnan(value)) return {kNan, 0};
  if (is_open) return Ball::open();
  if (mode_ == Mode::kSampled && seed_ % 2 == 0) return {value, 0};
  // A group in f32 may reach from one sum into the next.
  const bool may_overflow = sums.size > 1 && magnitudes + radii >= 0x1p128;
  if (is_doubtful() && may_overflow && std::abs(value) - radii < 0x1p128) return Ball::open();
  return f32(value, radii + (sums.size < 2 ? 0 : in_f64(sums.size) * magnitudes));
}

Ball Arithmetic::deviation(Ball value, Ball mean) const {
  const double d = value.mid - mean.mid;
  if (mode_ == Mode::kExact) return {d, 0};
  if (std::isnan(d)) return {kNan, 0};
  if (value.is_open() || mean.is_open()) return Ball::open();
  if (std::isinf(d)) return {d, 0};
  if (mode_ == Mode::kSampled) return sampled_deviation(value.mid, mean.mid);
  const double inherited = value.radius + mean.radius;
  if (mode_ == Mode::kCarried) return {d, inherited};
  const double lost = mean.radius == 0 && is_f32(mean.mid) ? 0 : 2 * kUnderflow;
  if (inherited == 0 && lost == 0 && is_f32(d)) return {d, 0};
  return {d, (inherited + lost + 2 * kUnit * (std::abs(d) + inherited)) * kMargin};
}

Moments Arithmetic::moments(const Row& values, double epsilon) const {
  const Spread spread(values);
  if (spread.is_nan || spread.is_open)
    return {.mean = spread.special(), .variance = spread.special(), .rstd = spread.special()};
  if (mode_ == Mode::kSampled) return sampled_moments(values, epsilon);
  const auto n = static_cast<double>(values.size);
  Moments moments;
  moments.mean.mid = values.mid[0] + spread.differences / n;
  moments.is_alone = values.size == 1;
  double squares = 0, errors = 0;
  for (size_t i = 0; i < values.size; ++i) {
    const Ball x = values[i];
    const double d = x.mid - moments.mean.mid;
    squares += d * d;
    errors += (2 * std::abs(d) + x.radius) * x.radius;
  }
  moments.variance.mid = squares / n;
  if (is_doubtful() && spread.range() > 0) {
    const double range = spread.range(), sums = in_f64(values.size);
    const double held = sums * (std::abs(moments.mean.mid) + 2 * range);
    moments.mean.radius = (spread.radii / n + held) * kMargin;
    moments.variance.radius = (errors / n + 2 * sums * range * range + held * held) * kMargin;
  }
  moments.rstd = rsqrt(moments.variance, epsilon);
  return moments;
}

Ball Arithmetic::normalise(Ball value, const Moments& moments) const {
  if (mode_ == Mode::kExact) return {(value.mid - moments.mean.mid) * moments.rstd.mid, 0};
  if (moments.is_alone && moments.mean.is_finite()) return {};
  return multiply(deviation(value, moments.mean), moments.rstd);
}

}  // namespace assay
