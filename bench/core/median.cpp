// SPDX-License-Identifier: Apache-2.0
#include "bench/core/median.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/error.h"

namespace assay {

MedianInterval median_interval(std::vector<double> samples) {
  if (samples.empty()) throw Error("a median needs at least one sample");
  std::ranges::sort(samples);
  const size_t n = samples.size();
  const double median = n % 2 == 1 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
  // The number of samples below the true median is binomial(n, 1/2). The interval from the k-th
  // smallest to the k-th largest sample misses it with probability 2 * P(binomial < k). Take the
  // largest k for which that is at most 5 %. With fewer than six samples there is no such k, and
  // the interval is the whole range.
  double probability = std::ldexp(1.0, -static_cast<int>(n));  // of j samples below
  double below = 0;                                            // of at most j
  size_t k = 0;
  for (size_t j = 0; j < n / 2; ++j) {
    below += probability;
    if (2 * below > 0.05) break;
    k = j;
    probability *= static_cast<double>(n - j) / static_cast<double>(j + 1);
  }
  return {.median = median, .low = samples[k], .high = samples[n - 1 - k]};
}

std::optional<Drift> drift_of(const std::vector<double>& samples) {
  const size_t count = std::max<size_t>(samples.size() / 10, 10);
  if (samples.size() < 3 * count) return std::nullopt;
  const auto begin = samples.begin();
  const MedianInterval first = median_interval({begin, begin + static_cast<std::ptrdiff_t>(count)});
  const MedianInterval last =
      median_interval({begin + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end()});
  const bool is_apart = first.high < last.low || last.high < first.low;
  if (!is_apart || std::abs(last.median - first.median) <= 0.03 * first.median) return std::nullopt;
  return Drift{.count = count, .first = first.median, .last = last.median};
}

}  // namespace assay
