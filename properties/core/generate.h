// SPDX-License-Identifier: Apache-2.0
// Random cases of a path, for rapidcheck. A (seed, size) gives the same case on every machine.
#pragma once

#include <rapidcheck.h>

#include "properties/core/case.h"

namespace assay {

// The most elements of a case's largest tensor, unless somebody asks for less. Some hundred cases
// of this size are judged in seconds.
inline constexpr int64_t kFuzzElements = int64_t{1} << 16;
// The most flops of its cost, however many elements are allowed; and those of a large case. So the
// oracle answers within a fraction of a second, and within a second or two.
inline constexpr int64_t kFuzzFlops = int64_t{1} << 22, kLargeFlops = int64_t{1} << 25;

// The fewest and the most elements of the largest tensor of a large case.
inline constexpr int64_t kLargeElements = int64_t{1} << 20, kLargestElements = int64_t{1} << 24;

// Whether the dimension is short, so that each of its sizes is drawn: taps, streams.
bool is_short(const DimInfo& dim);

// Whether the dimension is an axis of a tensor, or of an output. A dilation is neither.
bool is_axis(const Op& op, std::string_view key);
bool is_axis_of_output(const Op& op, std::string_view key);

// Whether the dimension is long and no axis of an output, so that it is only summed over. Every
// path serves multiples of its first edge.
bool is_summed(const Op& op, const DimInfo& dim);

// Draws dimensions around the op's edges and beyond them, products of dimensions around the path's
// edges, in two cases of five its own sizes, all dtypes of the path, all regimes and layouts, and
// states of up to four steps. No tensor has more than `max_elements` elements; this includes the
// problems that a state names. A case shrinks every field toward its simplest value: size 1 (a
// drawn 0 stays), f32, normal, dense, first_call or the shortest sequence, seed 0.
rc::Gen<Case> arbitrary_case(const Op& op, const Path& path, int64_t max_elements = kFuzzElements);

// The same with kLargeElements to kLargestElements, or fewer for an op that computes much with
// each, and with at most one step. It shrinks to fewer elements first.
rc::Gen<Case> arbitrary_large_case(const Op& op, const Path& path);

// [elements] The size of the largest input or output.
int64_t largest_tensor(const Op& op, const Dims& dims);

// Whether a layout makes sense for a problem. `inflated` needs a tensor with an axis to inflate,
// `broadcast` outermost dimensions of at least 2.
bool is_legal(Layout layout, const Op& op, const Dims& dims);

}  // namespace assay
