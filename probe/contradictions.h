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

// The same for a sum of groups: at most Sum::group terms are added in f32, and the groups in f64. M
// swamps f32 here, and f64 not. So M and -M lose units of their own groups alone.
std::vector<std::string> contradictions_of_groups(const Sum& declared, const Reach& reach);

}  // namespace assay
