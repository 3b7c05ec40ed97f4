// SPDX-License-Identifier: Apache-2.0
// What an op adds to the generic checks: known-bad implementations that must be caught, and laws
// that need no oracle.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/core/device.h"
#include "kernels/core/op.h"

namespace assay {

// A wrong implementation that proves that the harness sees this kind of fault.
// `assay verify --specimens` and tests judge its path; it is never among the normal paths.
struct Specimen {
  std::string_view op;
  std::string_view fault;  // "the first tap is dropped"
  Path path;               // named specimen.<fault_in_snake_case>
  // Of a hostile one, named hostile.<fault>: what it is timed on. It may be right whenever it is
  // judged, and is caught when it is timed.
  std::optional<Dims> timed_on{};

  bool is_hostile() const { return timed_on.has_value(); }
};

class Problem;

// A relation between outputs that holds exactly, at any size: causality, scaling by a power of two,
// ... Two NaNs are equal in it.
struct Law {
  std::string_view op;
  std::string_view name;       // snake_case
  std::string_view statement;  // one sentence
  // Draws a problem from the seed. Returns what was violated, with values, if anything was.
  std::function<std::optional<std::string>(const Op& op, const Path& path, Device& device, uint64_t seed)>
      violation;
  // The same on the inputs that a problem holds, for any dimensions and layout of a case.
  std::function<std::optional<std::string>(const Problem& problem)> violation_by = {};
  // Whether it holds for any data of a case. Else it holds where is_ordinary() does.
  bool is_universal = true;
};

}  // namespace assay
