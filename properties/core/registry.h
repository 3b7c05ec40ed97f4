// SPDX-License-Identifier: Apache-2.0
// All ops of a program and what belongs to each, generated from the assay_add_op() lines of its
// build.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/oracle.h"
#include "properties/core/problem.h"
#include "properties/core/specimen.h"

namespace assay {

class Registry {
 public:
  // Throws Error (internal) if an op has no oracle or is added twice, or if an entry of its table
  // stands in another place than it declares.
  void add(const std::vector<Op>& ops, std::vector<Oracle> oracles, std::vector<Specimen> specimens,
           std::vector<Law> laws);

  const std::vector<const Op*>& ops() const { return ops_; }
  // Those of the ops, and those of each recipe (recipe_specimens.h). These are made when they are
  // first asked for, since that calls the paths.
  const std::vector<Specimen>& specimens() const;
  const std::vector<Law>& laws() const { return laws_; }

  const Op& op(std::string_view name) const;  // throws Error (usage)
  const Oracle& oracle(std::string_view op) const;
  // The op, path, oracle and laws that a case line names, specimens included. Throws Error (usage).
  Subject subject(std::string_view op, std::string_view path) const;

 private:
  std::vector<const Op*> ops_;
  std::deque<Oracle> oracles_;  // specimens point to them
  struct Added {
    size_t ops;  // so far
    std::vector<Specimen> specimens;
  };
  std::vector<Added> added_;
  const Specimen* find_specimen(const Op& op, std::string_view path) const;

  mutable std::optional<std::vector<Specimen>> specimens_;
  mutable std::deque<Specimen> found_;  // before specimens() made all
  std::vector<Law> laws_;
};

// Defined in the generated source of each program.
const Registry& registry();

}  // namespace assay
