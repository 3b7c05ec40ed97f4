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
#include "properties/core/data.h"
#include "properties/core/layout.h"
#include "properties/core/state.h"

namespace assay {

struct Case {
  std::string op;
  std::string path;
  DType dtype = DType::kF32;
  Dims dims;
  Data data{};
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
