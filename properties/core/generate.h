// SPDX-License-Identifier: Apache-2.0
// Random cases of a path, for rapidcheck: any (seed, size) gives the same case on every machine.
#pragma once

#include <rapidcheck.h>

#include "properties/core/case.h"

namespace assay {

// Cases stay small enough for some hundred to be judged in seconds: at most this many elements in the largest
// tensor, unless somebody asks for less.
inline constexpr int64_t kFuzzElements = int64_t{1} << 16;

// Whether every size of the dimension is small, and drawn: taps, streams.
bool is_short(const DimInfo& dim);

// Whether the dimension is an axis of some tensor, or of some output; a dilation is neither.
bool is_axis(const Op& op, std::string_view key);
bool is_axis_of_output(const Op& op, std::string_view key);

// Whether the dimension is long and only summed over. Its first edge is what every path serves multiples of.
bool is_summed(const Op& op, const DimInfo& dim);

// Dimensions around the op's edges, all dtypes of the path, all regimes and layouts, and states of up to four steps.
// Shrinks every field toward its simplest value: size 1 (a drawn 0 stays), f32, normal, dense, first_call or the shortest
// sequence, seed 0. No tensor has more than `max_elements` elements, nor has one of the problems that a state names.
rc::Gen<Case> arbitrary_case(const Op& op, const Path& path, int64_t max_elements = kFuzzElements);

// [elements] of the largest input or output.
int64_t largest_tensor(const Op& op, const Dims& dims);

// Layouts that make sense for a problem: `inflated` needs a short outermost dimension, `broadcast` a long
// one.
bool is_legal(Layout layout, const Op& op, const Dims& dims);

}  // namespace assay
