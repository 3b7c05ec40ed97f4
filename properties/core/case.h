// SPDX-License-Identifier: Apache-2.0
// A case: one thing to judge or to time, and the line of text that names it.
//
//   dynamic_conv/cpu/bf16/b=2/t=17/d=33/w=4/data=normal/layout=strided/state=first_call/seed=7
//
// The line identifies the case everywhere: in records, reports, benchmark names and on the command
// line. Fields after the dimensions may be left out if they have their default: normal, dense,
// first_call, 0. A dense layout is not printed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kernels/core/op.h"
#include "properties/core/layout.h"
#include "properties/core/state.h"

namespace assay {

// Where the input values come from. All are drawn in double from the case's seed and rounded to the
// tensor's dtype. The "common" precision and range are the lowest and narrowest among the dtypes of
// all inputs and outputs.
enum class Regime : uint8_t {
  kNormal,     // mean 0, standard deviation 1 (a sum of twelve uniforms, so |x| < 6)
  kUniform,    // [-1, 1)
  kPositive,   // [0.5, 1.5): nothing cancels
  kIntegers,   // non-zero integers, |x| <= 8: products and short sums are exact
  kOffset,     // mean/std from 10 to 1e5, as far as the common precision resolves std
  kHeavyTail,  // a quotient of uniforms: rare values up to 2^12 times the typical one
  kTiny,       // products of Op::least_degree values lie near the common range's smallest number
  // Products of as many values as the op multiplies (Op::degree) are as large as the common range
  // allows, and small enough for f32 sums of 4096 of them. f16 results may overflow.
  kHuge,
  kSubnormal,  // one input lies around the common range's smallest normal number, half of it below
  kConstant,   // one value per tensor
  kSpike,      // one input is all zeros except one element
  kNonfinite,  // one input has a few infinities and NaNs, at its first and last element, too
};

std::span<const Regime> all_regimes();
std::string_view name_of(Regime regime);  // "heavy_tail"

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

// Whether a case is easier to look at: fewer elements, by the product of its dimensions, or as many
// and a shorter line.
bool is_smaller(const Case& a, const Case& b);

// Throws Error (usage) that names the field and its value. It knows no ops: require_dims() checks
// the dimensions.
Case parse_case(std::string_view line);

}  // namespace assay
