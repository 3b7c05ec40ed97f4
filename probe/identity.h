// SPDX-License-Identifier: Apache-2.0
// Whether a path computes the formula's polynomial on one shape: equality to the bit on random
// integers.
//
// Inputs are integers of at most m in magnitude, and m is so small that all sums of magnitudes of
// terms are at most 2^24 and all outputs exact in their dtype. So every right path gives the exact
// value, however it adds up. Two different polynomials of degree d agree on a draw from S with
// probability d / |S| at most (Schwartz, Zippel). Here |S| = 2m + 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "probe/calls.h"

namespace assay {

struct Identity {
  Dims dims{};
  int64_t values = 0;  // |S|
  int degree = 2;
  int64_t draws = 0;
  double miss = 1;  // probability that a different polynomial of this degree passes, at most
  std::optional<std::string> difference{};  // the first element that differs, with values
  std::string why_not{};                    // it was not tried
};

// `terms`: the most products that one output adds up. Takes as many draws as bring `miss` to 3e-11.
Identity test_identity(const Subject& subject, const PathCalls& calls, DType dtype, const Dims& dims,
                       int64_t terms, uint64_t seed);

}  // namespace assay
