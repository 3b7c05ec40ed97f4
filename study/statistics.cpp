// SPDX-License-Identifier: Apache-2.0
#include "study/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "kernels/core/error.h"
#include "properties/core/random.h"

namespace assay::study {
namespace {

constexpr double kShareAbove = 0.05;  // of all draws, above their 95 % quantile

struct Moments {
  double mean = 0, sd = 0;
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (double value : values) m.mean += value / n;
  for (double value : values) m.sd += (value - m.mean) * (value - m.mean) / (n - 1);
  m.sd = std::sqrt(m.sd);
  return m;
}

// The 97.5 % quantile of Student's t: exact for 2 degrees of freedom, Hill's expansion above.
double student(double degrees) {
  if (degrees == 2) return 4.302652730;
  constexpr double z = 1.959963984540054;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * degrees * degrees * degrees);
}

// sum over groups of (x - mean x)(y - mean y) and (x - mean x)^2, of weighted points.
struct Sums {
  double xy = 0, xx = 0;
};

std::optional<double> slope(const std::vector<Observation>& logs, const std::map<uint64_t, double>& weights) {
  struct Group {
    double n = 0, x = 0, y = 0;
    double first = 0;     // x of one of them
    bool varies = false;  // else rounding alone would make a slope
  };
  std::map<uint64_t, Group> groups;
  for (const Observation& o : logs) {
    const double w = weights.at(o.draw);
    if (w == 0) continue;
    Group& group = groups[o.group];
    if (group.n == 0) group.first = o.x;
    group.varies |= o.x != group.first;
    group.n += w;
    group.x += w * o.x;
    group.y += w * o.y;
  }
  Sums sums;
  for (const Observation& o : logs) {
    const Group& group = groups[o.group];
    if (!group.varies) continue;
    const double w = weights.at(o.draw), dx = o.x - group.x / group.n, dy = o.y - group.y / group.n;
    sums.xy += w * dx * dy;
    sums.xx += w * dx * dx;
  }
  if (!(sums.xx > 0)) return std::nullopt;
  return sums.xy / sums.xx;
}

}  // namespace

double quantile(std::vector<double> values, double share) {
  if (values.empty()) throw Error("a quantile needs at least one value");
  const auto count = static_cast<double>(values.size());
  const auto rank = static_cast<size_t>(std::clamp(std::ceil(share * count), 1.0, count));
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(rank - 1));
  return values[rank - 1];
}

double confidence_of(int64_t n) {
  return 1 - std::pow(1 - kShareAbove, static_cast<double>(n));
}

int64_t draws_that_tell(int64_t n) {
  const auto all = static_cast<double>(n);
  double probability = std::pow(1 - kShareAbove, all);  // of k draws above
  double at_least = 1;                                  // of k or more
  int64_t k = 0;
  for (; k < n && at_least > 0.05; ++k) {
    at_least -= probability;
    probability *=
        (all - static_cast<double>(k)) / static_cast<double>(k + 1) * kShareAbove / (1 - kShareAbove);
  }
  return k;
}

std::optional<Interval> log10_interval(const std::vector<double>& errors) {
  if (errors.size() < 3) return std::nullopt;
  std::vector<double> logs;
  for (double error : errors) {
    if (!(error > 0) || !std::isfinite(error)) return std::nullopt;
    logs.push_back(std::log10(error));
  }
  const auto n = static_cast<double>(errors.size());
  const auto [mean, sd] = moments_of(logs);
  if (sd == 0) return std::nullopt;
  const double half = student(n - 1) * sd / std::sqrt(n);
  return Interval{mean - half, mean + half};
}

std::optional<double> in_standard_errors(const std::vector<double>& values) {
  if (values.size() < 3) return std::nullopt;
  const auto [mean, sd] = moments_of(values);
  if (sd == 0) return std::nullopt;
  return mean / sd * std::sqrt(static_cast<double>(values.size()));
}

std::optional<Exponent> exponent_of(const std::vector<Observation>& observations, uint64_t seed) {
  std::vector<Observation> logs;
  std::set<uint64_t> found;
  for (const Observation& o : observations) {
    if (!(o.x > 0) || !(o.y > 0) || !std::isfinite(o.y)) continue;
    logs.push_back({std::log(o.x), std::log(o.y), o.group, o.draw});
    found.insert(o.draw);
  }
  const std::vector<uint64_t> draws(found.begin(), found.end());
  std::map<uint64_t, double> weights;
  for (uint64_t draw : draws) weights[draw] = 1;
  const auto value = slope(logs, weights);
  if (!value) return std::nullopt;
  std::vector<double> slopes;
  const CounterRandom random(seed, 8000);
  for (uint64_t sample = 0; sample < kResamples; ++sample) {
    for (auto& [draw, weight] : weights) weight = 0;
    for (uint64_t i = 0; i < draws.size(); ++i) ++weights[draws[random.bits(sample, i) % draws.size()]];
    if (const auto one = slope(logs, weights)) slopes.push_back(*one);
  }
  if (slopes.empty()) return std::nullopt;
  return Exponent{*value, {quantile(slopes, 0.025), quantile(slopes, 0.975)}};
}

double sign_test(int64_t n, int64_t a) {
  if (n == 0) return 1;
  const int64_t more = std::max(a, n - a);
  double probability = 0;
  for (int64_t k = more; k <= n; ++k) {
    const auto log = std::lgamma(static_cast<double>(n) + 1) - std::lgamma(static_cast<double>(k) + 1) -
                     std::lgamma(static_cast<double>(n - k) + 1) - static_cast<double>(n) * std::log(2.0);
    probability += std::exp(log);
  }
  return std::min(1.0, 2 * probability);
}

}  // namespace assay::study
