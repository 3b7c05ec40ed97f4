// SPDX-License-Identifier: Apache-2.0
#include "properties/core/registry.h"

#include <algorithm>
#include <iterator>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"
#include "properties/core/recipe_specimens.h"

namespace assay {

void Registry::add(const std::vector<Op>& ops, std::vector<Oracle> oracles, std::vector<Specimen> specimens,
                   std::vector<Law> laws) {
  std::ranges::move(oracles, std::back_inserter(oracles_));
  std::ranges::move(laws, std::back_inserter(laws_));
  for (const Op& op : ops) {
    require_places(op);
    if (std::ranges::any_of(ops_, [&](const Op* other) { return other->name == op.name; })) {
      throw Error("the op '{}' is registered twice", op.name);
    }
    const size_t blocks = oracle(op.name).block_axes.size();
    if (blocks != op.outputs.size())
      throw Error("the oracle of '{}' has {} block_axes for {} outputs", op.name, blocks, op.outputs.size());
    ops_.push_back(&op);
  }
  std::ranges::move(specimens, std::back_inserter(added_));
}

void Registry::add_probed(std::vector<ProbedSum> sums) {
  for (ProbedSum& sum : sums) {
    static_cast<void>(op(sum.op));  // throws for an unknown one
    probed_.push_back(std::move(sum));
  }
}

std::vector<const ProbedSum*> Registry::probed_sums(std::string_view op) const {
  std::vector<const ProbedSum*> found;
  for (const ProbedSum& sum : probed_) {
    if (sum.op == op) found.push_back(&sum);
  }
  return found;
}

const std::vector<Specimen>& Registry::specimens(const Op& op) const {
  if (const auto made = specimens_.find(op.name); made != specimens_.end()) return made->second;
  std::vector<Specimen> all;
  std::ranges::copy_if(added_, std::back_inserter(all), [&](const Specimen& specimen) {
    return specimen.op == op.name && !specimen.is_hostile();
  });
  std::ranges::move(recipe_specimens(op, oracle(op.name)), std::back_inserter(all));
  return specimens_.emplace(op.name, std::move(all)).first->second;
}

std::vector<const Specimen*> Registry::hostile(const Op& op) const {
  std::vector<const Specimen*> all;
  for (const Specimen& specimen : added_) {
    if (specimen.op == op.name && specimen.is_hostile()) all.push_back(&specimen);
  }
  return all;
}

const Op& Registry::op(std::string_view name) const {
  std::vector<std::string> known;
  for (const Op* op : ops_) {
    if (op->name == name) return *op;
    known.emplace_back(op->name);
  }
  throw usage_error("there is no op '{}'{}", excerpt(name), did_you_mean(name, known, "there are"));
}

const Oracle& Registry::oracle(std::string_view op) const {
  const auto found = std::ranges::find(oracles_, op, &Oracle::op);
  if (found == oracles_.end()) throw Error("the op '{}' has no oracle", op);
  return *found;
}

Subject Registry::subject(std::string_view op_name, std::string_view path) const {
  const Op& op = this->op(op_name);
  std::vector<const Law*> laws;
  for (const Law& law : laws_) {
    if (law.op == op_name) laws.push_back(&law);
  }
  const auto subject_of = [&](const Path& judged) {
    return Subject{&op, &judged, &oracle(op_name), std::move(laws)};
  };
  if (std::ranges::count(op.paths, path, &Path::name) > 0) return subject_of(op.path(path));
  if (const Specimen* specimen = find_specimen(op, path)) return subject_of(specimen->path);
  return subject_of(op.path(path));  // which throws
}

// Without making all of them, for which each path is asked for its recipes.
const Specimen* Registry::find_specimen(const Op& op, std::string_view path) const {
  const auto in = [&](const auto& specimens) {
    const auto found = std::ranges::find_if(specimens, [&](const Specimen& specimen) {
      return specimen.op == op.name && specimen.path.name == path;
    });
    return found == specimens.end() ? nullptr : &*found;
  };
  for (const Specimen* specimen : hostile(op)) {
    if (specimen->path.name == path) return specimen;
  }
  if (const auto made = specimens_.find(op.name); made != specimens_.end()) return in(made->second);
  if (const Specimen* specimen = in(added_)) return specimen;
  if (const Specimen* specimen = in(found_)) return specimen;
  auto specimen = recipe_specimen(op, oracle(op.name), path);
  return specimen ? &found_.emplace_back(*std::move(specimen)) : nullptr;
}

}  // namespace assay
