// SPDX-License-Identifier: Apache-2.0
// A sum that can be asked for its values, and the questions whose answers tell how it adds up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "probe/tree.h"
#include "properties/core/probed_sum.h"

namespace assay {

// The values of sums, each in a place of its own; all of them at once, or in calls of most_sums.
using Sums = std::function<std::vector<double>(const Factors& factors)>;

// What a question may use.
struct Reach {
  int64_t terms = 0;
  Sums sums;
  FirstFactor first = FirstFactor::kFree;
  bool is_exact = true;        // else values are about right, but 0 for 0
  bool hides_bits = false;     // and 0 may stand for a small number
  bool has_subnormals = true;  // sums that are subnormal can be seen
  int factor_bits = 24;        // of a factor as stored
  int unit = 0, huge = 50;     // 2^unit is a 1, 2^huge swamps all of them
  int64_t units = 1024;        // that an answer can tell apart
  int lowest = -126;           // exponent of the smallest normal factor
};

// Sets term k of a sum to `value`, a number of few bits.
void put(Factors& factors, const Reach& reach, int64_t sum, int64_t term, double value);

// The values of sums that hold these values, times 2^scale, in these places, and 0 elsewhere.
// Without that scale.
struct PlacedValue {
  int64_t place;
  double value;
};
std::vector<double> ask(const Reach& reach, const std::vector<std::vector<PlacedValue>>& sums, int scale = 0);

// L(i,j), by M and -M among units (tree.h). Throws Error (unsupported) if a count is no integer.
CommonLeaves common_leaves_by_masks(const Reach& reach);

}  // namespace assay
