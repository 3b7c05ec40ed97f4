// SPDX-License-Identifier: Apache-2.0
// All ops of a program and what belongs to each, generated from the assay_add_op() lines of its
// build.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/oracle.h"
#include "properties/core/probed_sum.h"
#include "properties/core/problem.h"
#include "properties/core/specimen.h"

namespace assay {

class Registry {
 public:
  // Throws Error (internal) if an op has no oracle or is added twice, or if an entry of its table
  // stands in another place than it declares.
  void add(const std::vector<Op>& ops, std::vector<Oracle> oracles, std::vector<Specimen> specimens,
           std::vector<Law> laws);
  void add_probed(std::vector<ProbedSum> sums);

  const std::vector<const Op*>& ops() const { return ops_; }
  // Those of the op itself, and those of each recipe (recipe_specimens.h). They are made when they
  // are first asked for, since that calls the paths. The hostile ones are a list of their own.
  const std::vector<Specimen>& specimens(const Op& op) const;
  std::vector<const Specimen*> hostile(const Op& op) const;
  const std::vector<Law>& laws() const { return laws_; }
  // The sums of an op that can be probed, in the order of its formula.
  std::vector<const ProbedSum*> probed_sums(std::string_view op) const;

  const Op& op(std::string_view name) const;  // throws Error (usage)
  const Oracle& oracle(std::string_view op) const;
  // The op, path, oracle and laws that a case line names, specimens included. Throws Error (usage).
  Subject subject(std::string_view op, std::string_view path) const;

 private:
  std::vector<const Op*> ops_;
  std::deque<Oracle> oracles_;   // specimens point to them
  std::vector<Specimen> added_;  // those of ops themselves
  const Specimen* find_specimen(const Op& op, std::string_view path) const;

  mutable std::map<std::string_view, std::vector<Specimen>> specimens_;  // by op
  mutable std::deque<Specimen> found_;  // before specimens() made those of the op
  std::vector<Law> laws_;
  std::deque<ProbedSum> probed_;
};

// Defined in the generated source of each program.
const Registry& registry();

}  // namespace assay
