// SPDX-License-Identifier: Apache-2.0
// What an Arithmetic makes of a row that is normalised in f32.
#include <algorithm>

#include "oracles/core/arithmetic.h"
#include "oracles/core/bound.h"

namespace assay {

Ball Arithmetic::mean_square(const Row& v, const Sum& sum) const {
  const size_t roundings = std::min(v.size, kMostOfRow + v.size / 32);
  return multiply(dot(v, v, sum, roundings), constant(1 / static_cast<double>(v.size)));
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
  double sum = 0, radii = 0, low = HUGE_VAL, high = -HUGE_VAL;
  bool is_nan = false;
  for (size_t i = 0; i < v.size; ++i) {
    const Ball x = v[i];
    is_nan |= !std::isfinite(x.mid);
    sum += x.mid - v.mid[0];
    radii += x.radius;
    low = std::min(low, x.mid - x.radius);
    high = std::max(high, x.mid + x.radius);
  }
  const double range = high - low;
  const bool is_open = is_doubtful() && !(radii < HUGE_VAL && n * range < 0x1p128);
  if (is_nan || is_open) {
    for (size_t i = 0; i < v.size; ++i) to.set(i, is_nan ? Ball{kNan, 0} : Ball::open());
    return;
  }
  const double u = unit(), additions = std::min((n + 1) / 2, 18 + n / 64), mean = v.mid[0] + sum / n;
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
    const Ball d{to[i].mid / scale, to[i].radius / scale + radii / n + of_mean + 0x1p-149};
    Ball y = is_constant ? Ball{} : multiply(d, rstd);
    y.radius = std::min(y.radius, 2 * std::sqrt(n));
    to.set(i, multiply_add(y, weight[i], bias[i]));
  }
}

}  // namespace assay
