// SPDX-License-Identifier: Apache-2.0
// How large the terms are that an output adds up: |W||z| of out = W z.
//
// Let S be the sum of the magnitudes of the terms of the last sum of the formula, times what
// follows the sum. An error of e is what changes of the terms by e / S of themselves do [Oettli,
// Prager 1964]. So e / S is small where terms cancel and a path adds them up well, however large
// the error is beside the sum that is left.
//
// The ball of a sum tells S. Let factors be in two parts, and groups hold kGroup terms. Then
// n = 3 (kGroup + 1) roundings are granted, and a truncated one costs u more than one to nearest
// (Arithmetic::dot). So truncation widens the ball by n u S. What follows the sum carries this to
// the output, to first order. 2 % are lost in that, and 10 % where an output is f32 by itself.
#pragma once

#include "oracles/core/oracle.h"
#include "study/errors.h"

namespace assay::study {

// S at each of the elements, NaN where it is not known. Empty if no sum reaches the output. The
// recipe of the question does not matter.
std::vector<double> sizes_of_terms(const Oracle& oracle, const Question& question, int output,
                                   std::span<const int64_t> elements, int64_t row);

}  // namespace assay::study
