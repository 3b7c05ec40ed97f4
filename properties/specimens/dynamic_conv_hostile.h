// SPDX-License-Identifier: Apache-2.0
// Paths of dynamic_conv that cheat: they are right when they are judged, or look so, and do less
// when they are timed. Each is a published exploit, or a mistake of honest code that looks like
// one.
#pragma once

#include <vector>

#include "properties/core/specimen.h"

namespace assay::dynamic_conv {

std::vector<Specimen> hostile_on_cpu();
std::vector<Specimen> hostile_between_calls();  // more of them on a CPU
std::vector<Specimen> hostile_to_clocks();      // the rest of those
std::vector<Specimen> hostile_on_cuda();        // defined in a build with CUDA

}  // namespace assay::dynamic_conv
