// SPDX-License-Identifier: Apache-2.0
#include "probe/questions.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/error.h"

namespace assay {

void put(Factors& factors, const Reach& reach, int64_t sum, int64_t term, double value) {
  const size_t at = factors.at(sum, term);
  if (value == 0) {
    factors.b[at] = 0;
    return;
  }
  // Half of the exponent for each factor: both may be narrower than their product.
  const int half = reach.first == FirstFactor::kFree ? std::ilogb(value) / 2 : 0;
  factors.a[at] = std::ldexp(1.0, half);
  factors.b[at] = std::ldexp(value, -half);
}

std::vector<double> ask(const Reach& reach, const std::vector<std::vector<PlacedValue>>& sums, int scale) {
  Factors factors(static_cast<int64_t>(sums.size()), reach.terms);
  for (size_t s = 0; s < sums.size(); ++s) {
    for (const auto& [place, value] : sums[s])
      put(factors, reach, static_cast<int64_t>(s), place, std::ldexp(value, scale));
  }
  std::vector<double> values = reach.sums(factors);
  for (double& value : values) value = std::ldexp(value, -scale);
  return values;
}

CommonLeaves common_leaves_by_masks(const Reach& reach) {
  return [reach](const std::vector<Pair>& pairs) {
    const int64_t parts = std::max<int64_t>((reach.terms + reach.units - 1) / reach.units, 1);
    Factors factors(static_cast<int64_t>(pairs.size()) * parts, reach.terms);
    const double unit = std::ldexp(1.0, reach.unit), huge = std::ldexp(1.0, reach.huge);
    for (int64_t s = 0; s < factors.sums(); ++s) {
      const auto [i, j] = pairs[static_cast<size_t>(s / parts)];
      const int64_t begin = s % parts * reach.units, end = std::min(begin + reach.units, reach.terms);
      for (int64_t k = begin; k < end; ++k) put(factors, reach, s, k, unit);
      put(factors, reach, s, i, huge);
      put(factors, reach, s, j, -huge);
    }
    const std::vector<double> values = reach.sums(factors);
    std::vector<int64_t> common;
    for (size_t p = 0; p < pairs.size(); ++p) {
      int64_t outside = 0;
      for (int64_t part = 0; part < parts; ++part) {
        const double count =
            std::ldexp(values[p * static_cast<size_t>(parts) + static_cast<size_t>(part)], -reach.unit);
        const double nearest = std::nearbyint(count);
        if (!(std::abs(count - nearest) <= 0.25) || nearest < 0 ||
            nearest > static_cast<double>(reach.terms)) {
          throw unsupported_error(
              "M in term {} and -M in term {} leave {} units, which is no number of terms", pairs[p].first,
              pairs[p].second, count);
        }
        outside += static_cast<int64_t>(nearest);
      }
      common.push_back(reach.terms - outside);
    }
    return common;
  };
}

}  // namespace assay
