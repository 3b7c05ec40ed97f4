// SPDX-License-Identifier: Apache-2.0
// What samples of a time say: their median with an interval, and whether they drift.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace assay {

// The median and its 95 % interval by order statistics (binomial, without an assumption on the
// distribution).
struct MedianInterval {
  double median;
  double low;
  double high;
};
MedianInterval median_interval(std::vector<double> samples);  // throws Error if empty

// A change of the samples while they are taken, as on a GPU that meets its power limit. The median
// of the first tenth (at least ten samples) and the median of the last half differ by more than 3
// %, and their intervals do not overlap. Independent samples of one distribution do so at most one
// time in ten. Fewer than 30 samples give no answer.
struct Drift {
  size_t count;        // samples in the first part
  double first, last;  // medians
};
std::optional<Drift> drift_of(const std::vector<double>& samples);

}  // namespace assay
