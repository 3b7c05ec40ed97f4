// SPDX-License-Identifier: Apache-2.0
// A copy: out[i] = x[i].
//
// shapes   x, out (N); N >= 0
// strides  any, in elements, >= 0; x may repeat elements (stride 0), out may not
// dtypes   f32
// aliasing out must not overlap x
// empty    N = 0: returns without touching memory
#pragma once

#include <vector>

#include "kernels/core/op.h"

namespace assay::echo {

inline constexpr Dim kN{0, "n"};
inline constexpr Input kX{0, "x"};
inline constexpr Output kOut{0, "out"};

void copy(const Call& call);

// Paths that copy and then do something else as well. Each is named by what it does.
std::vector<Path> murderous_paths();
// Paths that copy, but do not answer when they are asked what they serve or how they compute.
std::vector<Path> paths_that_do_not_answer();
std::vector<Path> cuda_paths();  // where CUDA is built

// The op echo, with its paths.
const std::vector<Op>& ops();

}  // namespace assay::echo
