// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations of every recipe of an op: its formula, evaluated as a right path would,
// with one fault in the arithmetic (oracles/core/arithmetic.h, Plant) or one slip in the formula
// (Oracle::slips).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "oracles/core/oracle.h"
#include "properties/core/specimen.h"

namespace assay {

// What is wrong: a fault in the arithmetic, a fault number of the formula, or neither.
struct Wrong {
  Plant plant = {};
  int fault = 0;
};

// The formula as a path with the recipe of `path`, on the CPU.
Path formula_path(const Op& op, const Path& path, const Oracle& oracle, const Wrong& wrong = {});

// "specimen.cuda_f16.hidden_truncated". One for each place of each recipe where a fault changes
// something, also of recipes of paths that this build lacks. Paths with equal recipes have the same
// ones, named after the first.
std::vector<Specimen> recipe_specimens(const Op& op, const Oracle& oracle);
// The one with this name, if there is one. Asks only that path for its recipe which it is named
// after.
std::optional<Specimen> recipe_specimen(const Op& op, const Oracle& oracle, std::string_view name);

}  // namespace assay
