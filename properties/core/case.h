// SPDX-License-Identifier: Apache-2.0
// A case: one thing to judge or to time, and the line of text that names it.
//
//   dynamic_conv/cpu/bf16/b=2/t=17/d=33/w=4/data=normal/layout=strided/state=first_call/seed=7
//
// The line is the case's identity everywhere: in records, reports, benchmark names and on the command line.
// Fields after the dimensions may be left out when they have their default: normal, dense, first_call, 0. The
// layout is printed only when it is not dense.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/core/op.h"
#include "properties/core/state.h"

namespace assay {

// Where the input values come from. All are drawn in double from the case's seed and rounded to the tensor's dtype.
// "Common" is what all dtypes among the inputs and outputs have: the lowest precision, the narrowest range. In an op
// whose tensors share one dtype, that is the dtype's own.
enum class Regime : uint8_t {
  kNormal,     // mean 0, standard deviation 1 (a sum of twelve uniforms, so |x| < 6)
  kUniform,    // [-1, 1)
  kPositive,   // [0.5, 1.5): nothing cancels
  kIntegers,   // non-zero integers, |x| <= 8: products and short sums are exact
  kOffset,     // mean/std a power of ten from 10 to 1e5, as far as the common precision resolves the std; by
               // the seed
  kHeavyTail,  // a quotient of uniforms: rare values up to 2^12 times the typical one
  kTiny,       // products near the smallest normal number of the common range
  kHuge,  // products of as many values as the op multiplies (its degree), as large as the common range and sums of
          // 4096 in f32 allow; f16 may overflow
  kSubnormal,  // one input lies around the smallest normal number of its dtype, half of its elements below
  kConstant,   // one value per tensor
  kSpike,      // one input all zeros but one element
  kNonfinite,  // one input with a few infinities and NaNs, the first and last element among them
};

// How the tensors lie in memory.
enum class Layout : uint8_t {
  kDense,       // row-major
  kStrided,     // a gap of three elements after each innermost row and of one row after each outer slice
  kMisaligned,  // row-major, starting one element after an aligned address
  kTransposed,  // the two innermost dimensions swapped in memory
  kBroadcast,   // inputs repeat along their outermost dimension (stride 0); outputs row-major
  kMixed,       // each tensor has one of dense, strided, misaligned and transposed, by the seed
  kInflated,    // 2^32 elements between neighbours of the outermost dimension: every 32-bit offset wraps
};

std::span<const Regime> all_regimes();
std::span<const Layout> all_layouts();
std::string_view name_of(Regime regime);  // "heavy_tail"
std::string_view name_of(Layout layout);

struct Case {
  std::string op;
  std::string path;
  DType dtype = DType::kF32;
  Dims dims;
  Regime data = Regime::kNormal;
  Layout layout = Layout::kDense;
  State state{};
  uint64_t seed = 0;

  std::string to_string() const;
  bool operator==(const Case&) const = default;
};

// Throws Error (usage) that names the field and its value. Knows no ops: require_dims() checks the
// dimensions.
Case parse_case(std::string_view line);

}  // namespace assay
