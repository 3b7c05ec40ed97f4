// SPDX-License-Identifier: Apache-2.0
// The certificate: would this comparison, on this data, have rejected plausible wrong answers?
#pragma once

#include <optional>
#include <span>
#include <string>

#include "oracles/core/oracle.h"
#include "properties/core/compare.h"

namespace assay {

struct Compared {
  const Oracle& oracle;
  const Question& question;
  int output;                          // number of the output
  Extents shape;                       // of that output
  DType dtype;                         // of that output
  std::span<const int64_t> elements;   // the row-major positions that were compared
  std::span<const Expected> expected;  // one for each of them
  double noise;  // distances from the computed value that look like rounding on this data
  // What the output held before the call; empty if that was poison.
  std::span<const double> previous;
};

// The name of the first wrong answer that the output dtype can show and that the comparison would
// accept, if there is one.
std::optional<std::string> accepted_fault(const Compared& compared);

}  // namespace assay
