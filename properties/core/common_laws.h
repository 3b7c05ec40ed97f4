// SPDX-License-Identifier: Apache-2.0
// Laws that many ops have. Each holds to the bit for a path that fixes the order of its sums.
#pragma once

#include <vector>

#include "properties/core/trial.h"

namespace assay {

// One entry along a dimension, computed as a problem of its own, gives the same bits. An output
// without the dimension sums over it, and is not compared.
Check independence(Dim dim);

// Inputs permuted along a dimension give the permuted outputs, except for those without it.
Check permutation(Dim dim);

// Inputs times powers of two give the outputs times the product of the powers. Results below the
// smallest normal number do not count, since they are not rounded relative to their size, nor those
// that come near overflow. Zeros count if the inputs are drawn and all have the case's dtype.
struct Scaled {
  Input input;
  int power;  // the input is multiplied by the factor to this power
};
Check scaling(std::vector<Scaled> inputs, int power_of_outputs = 1);

// Small integers make every sum exact. The sum of two sets of these inputs gives the sum of the
// outputs; the other inputs stay. This holds for sums of up to 32 products.
Check additivity(std::vector<Input> inputs);

// The same elements give the same bits in every layout: strided, misaligned, transposed, all inputs
// repeated along their outermost dimension (stride 0), one input repeated along any of its
// dimensions.
Check layout_independence();

}  // namespace assay
