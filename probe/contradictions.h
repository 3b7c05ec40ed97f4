// SPDX-License-Identifier: Apache-2.0
// What a probe says against the recipe that a path declares.
#pragma once

#include <string>
#include <vector>

#include "kernels/core/recipe.h"
#include "probe/accumulator.h"
#include "probe/tree.h"

namespace assay {

// A sentence for each promise that is broken. A path may do better than it declares. Factors have
// `stored_bits` in memory.
std::vector<std::string> contradictions(const Sum& declared, const SumTree& tree, const Accumulator& found,
                                        int stored_bits);

}  // namespace assay
