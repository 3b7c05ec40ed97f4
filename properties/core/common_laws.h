// SPDX-License-Identifier: Apache-2.0
// Laws that many ops have. Each holds to the bit for paths that fix the order of their sums.
#pragma once

#include <string_view>
#include <vector>

#include "properties/core/trial.h"

namespace assay {

// One entry along the dimension `key`, as a problem of its own, gives the same bits.
Check independence(std::string_view key);

// Inputs permuted along the dimension `key` give the permuted outputs.
Check permutation(std::string_view key);

// Inputs times powers of two give the outputs times the product of the powers. Left out are results below the smallest
// normal number, which are not rounded relative to their size; zeros stay in where the op has one dtype.
struct Scaled {
  std::string_view input;
  int power;  // the input is multiplied by a factor to this power
};
Check scaling(std::vector<Scaled> inputs, int power_of_outputs = 1);

// For small integers, which make every sum exact, the sum of two sets of the named inputs gives the sum of the outputs;
// the other inputs stay. Holds for sums of up to 32 products.
Check additivity(std::vector<std::string_view> inputs);

// The same elements give the same bits wherever they lie: strided, misaligned, transposed, all inputs repeated along
// their outermost dimension (stride 0), one input repeated along any of its dimensions.
Check layout_independence();

}  // namespace assay
