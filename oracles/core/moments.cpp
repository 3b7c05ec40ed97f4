// SPDX-License-Identifier: Apache-2.0
// What an Arithmetic makes of a row or an example: means, variance, normalised values.
#include <algorithm>

#include "oracles/core/arithmetic.h"

namespace assay {
namespace {

// The sums over a row that its moments need.
struct Spread {
  explicit Spread(const Row& values) {
    for (size_t i = 0; i < values.size; ++i) {
      const Ball x = values[i];
      is_nan |= !std::isfinite(x.mid);
      differences += x.mid - values.mid[0];
      radii += x.radius;
      low = std::min(low, x.mid - x.radius);
      high = std::max(high, x.mid + x.radius);
    }
  }
  // Whether they are not finite balls, and what their moments are then.
  bool is_special() const { return is_nan || !std::isfinite(radii); }
  Ball special() const { return is_nan ? Ball{kNan, 0} : Ball::open(); }

  double differences = 0, radii = 0, low = HUGE_VAL, high = -HUGE_VAL;
  bool is_nan = false;
};

}  // namespace

Ball Arithmetic::constant(double value) const {
  if (mode_ == Mode::kSampled) return {seed_ % 2 == 0 ? value : static_cast<float>(value), 0};
  return {value, is_f32(value) ? 0 : unit() * std::abs(value)};
}

Ball Arithmetic::mean_of_products(const Row& a, const Row& b) const {
  Ball sum;
  double magnitudes = 0, largest = 0;
  for (size_t i = 0; i < a.size; ++i) {
    sum = sum + a[i] * b[i];
    magnitudes += std::abs(a.mid[i]) + a[i].radius;
    largest = std::max(largest, std::abs(b.mid[i]) + b[i].radius);
  }
  if (!sum.is_finite()) return sum;
  const auto n = static_cast<double>(a.size);
  return f32({sum.mid / n, sum.radius / n + in_f64(a.size) * 3 * largest * magnitudes / n});
}

Ball Arithmetic::total(const Row& sums) const {
  Ball sum;
  double magnitudes = 0;
  for (size_t i = 0; i < sums.size; ++i) {
    sum = sum + sums[i];
    magnitudes += std::abs(sums.mid[i]);
  }
  if (!sum.is_finite() || (mode_ == Mode::kSampled && seed_ % 2 == 0)) return sum;
  // A group in f32 may reach from one sum into the next.
  const bool may_overflow = sums.size > 1 && magnitudes + sum.radius >= 0x1p128;
  if (is_doubtful() && may_overflow && std::abs(sum.mid) - sum.radius < 0x1p128) return Ball::open();
  return f32({sum.mid, sum.radius + in_f64(sums.size) * magnitudes});
}

Ball Arithmetic::deviation(const Ball& value, const Ball& mean) const {
  const Ball d = value + -mean;
  if (!d.is_finite() || mode_ == Mode::kExact || mode_ == Mode::kCarried) return d;
  if (mode_ == Mode::kSampled) return sampled_deviation(value.mid, mean.mid);
  const double lost = mean.radius == 0 && is_f32(mean.mid) ? 0 : 2 * kUnderflow;
  if (d.radius == 0 && lost == 0 && is_f32(d.mid)) return d;
  return {d.mid, (d.radius + lost + 2 * kUnit * (std::abs(d.mid) + d.radius)) * kMargin};
}

Moments Arithmetic::moments(const Row& values, double epsilon) const {
  const Spread spread(values);
  if (spread.is_special())
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
  const double range = spread.high - spread.low, sums = in_f64(values.size);
  if (is_doubtful() && range > 0) {
    const double held = sums * (std::abs(moments.mean.mid) + 2 * range);
    moments.mean.radius = (spread.radii / n + held) * kMargin;
    moments.variance.radius = (errors / n + 2 * sums * range * range + held * held) * kMargin;
  }
  moments.rstd = rsqrt(moments.variance, epsilon);
  return moments;
}

Ball Arithmetic::normalise(const Ball& value, const Moments& moments) const {
  if (moments.is_alone && moments.mean.is_finite()) return {};
  return multiply(deviation(value, moments.mean), moments.rstd);
}

Ball Arithmetic::mean_square(const Row& v, const Sum& sum) const {
  return multiply(dot(v, v, sum, kMostOfRow + v.size / 32), constant(1 / static_cast<double>(v.size)));
}

// n numbers v of radius r, range R with the radii, a = min((n + 1) / 2, 18 + n / 64) additions on
// average. Deviations from a value of the row are at most R, wrong by u R; j of them add up to at
// most j R. So the mean of a path's values is wrong by
//   m = (a + 3) u R        (one for the deviations, two for the product with 1/n)
// and by u |mean| more if it is rounded. d = v - mean is wrong by w = u |d| + u R, too, and by r
// and mean(r), since v may be another. Let e be the error of r and w in each d. About the true mean
// of d + e, the variance is at most mean((d + e)^2) and at least mean(d^2 + 2 d e). So it is wrong
// by what mean_square has for e, and by (m + 2 u R)^2, as the mean is. rstd, d * rstd and * weight
// + bias follow. Two normalised values differ by at most 2 sqrt(n). Equal certain values have
// d = 0.
void Arithmetic::layer_norm(const Row& v, const Row& weight, const Row& bias, double epsilon,
                            bool rounds_mean, Balls& to) const {
  if (v.size == 0) return;
  if (mode_ == Mode::kSampled) return sampled_layer_norm(v, weight, bias, epsilon, rounds_mean, to);
  const auto n = static_cast<double>(v.size);
  const Spread spread(v);
  const double u = unit(), range = spread.high - spread.low;
  if (spread.is_special() || (is_doubtful() && n * range >= 0x1p128)) {
    for (size_t i = 0; i < v.size; ++i) to.set(i, spread.special());
    return;
  }
  const double additions = std::min((n + 1) / 2, 18 + n / 64), mean = v.mid[0] + spread.differences / n;
  const double of_mean = (additions + 3) * u * range + (rounds_mean ? u : 0x1p-53) * std::abs(mean);
  const bool is_constant = range == 0 || v.size == 1;
  // Times a power of two, so that squares neither overflow nor underflow.
  const double scale = is_constant ? 1 : std::ldexp(1, -std::ilogb(range));
  for (size_t i = 0; i < v.size; ++i) {
    const double d = v.mid[i] - mean, e = v[i].radius + u * (std::abs(d) + range);
    to.set(i, {d * scale, e * scale});
  }
  Ball variance = mean_square(to.row(0, v.size), {});
  variance.mid /= scale * scale;
  variance.radius /= scale * scale;
  if (is_doubtful()) variance.radius += std::pow(of_mean + 2 * u * range, 2);
  const Ball rstd = rsqrt(variance, epsilon);
  for (size_t i = 0; i < v.size; ++i) {
    const Ball d{to[i].mid / scale, to[i].radius / scale + spread.radii / n + of_mean + 0x1p-149};
    Ball y = is_constant ? Ball{} : multiply(d, rstd);
    y.radius = std::min(y.radius, 2 * std::sqrt(n));
    to.set(i, multiply_add(y, weight[i], bias[i]));
  }
}

}  // namespace assay
