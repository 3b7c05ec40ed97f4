// SPDX-License-Identifier: Apache-2.0
// The proof: what was found reproduces sums of random factors to the bit, or does not.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/core/dtype.h"
#include "probe/questions.h"
#include "probe/simulate.h"

namespace assay {

struct Replay {
  int64_t draws = 0, reproduced = 0;
  std::string why_not{};     // nothing could be replayed
  std::string first{};       // the first draw that is not reproduced, with values
  double largest_error = 0;  // of the replayed sums, as below
};

// Where values are inexact, the last terms take back what the others should add up to: the sum is
// then 0 if each bit of it is right. Such terms have to be parts of the root.
Replay replay(const Reach& reach, const SumTree& tree, const Adder& adder, DType storage, int64_t draws,
              uint64_t seed);

// Each sum of factors, added up in this tree with this adder.
std::vector<double> simulated(const Factors& factors, const SumTree& tree, const Adder& adder);

// The largest error of the values of sums, over the sum of the sizes of terms. Exact to n 2^-63 of
// that, if a factor has at most 32 bits.
double largest_error(const Factors& factors, const std::vector<double>& values);

}  // namespace assay
