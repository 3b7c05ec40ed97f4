// SPDX-License-Identifier: Apache-2.0
// What a study compares: paths that this machine runs, and recipes that it emulates.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "oracles/core/oracle.h"

namespace assay::study {

// The seed of the right path that emulates a recipe (Arithmetic::Mode::kSampled). It adds up in one
// chain, truncates in blocks of four if the recipe truncates, and its functions are off by all that
// they are granted: few right paths err more. It is the same in all draws, as a real path is.
inline constexpr uint64_t kPlainestPath = 0;

struct Contender {
  std::string name = {};  // of the path or of the recipe
  DType dtype;            // of storage
  // The path that runs. Null: it is emulated, as the plainest right path of its recipe.
  const Path* path = nullptr;
  std::function<Recipe(const Dims&)> recipe = {};
  std::map<size_t, std::string> why_not = {};  // the points at which it does not run: "fail: ..."
  Plant plant = {};  // what the emulation does besides: a sum that is kept in 16 bits

  bool is_emulated() const { return path == nullptr; }
  std::string label() const;                   // "cuda.bf16 in f32"
  std::string why_not_at(size_t point) const;  // empty if it runs there
};

// A recipe from another one: "mine=cuda.bf16:hidden=f32:projections=nearest". NAME=PATH names the
// recipe to begin with. After a colon, SITE=WHAT changes what happens at a site, or at `*`, all:
//   f32 f16 bf16 tf32 bf16x3 f16x3    how values there, or the factors of the sum, are rounded
//   nearest truncated                 how the sum's additions are
//   groups-of-K                       so many products are added in f32, and such groups in f64
//   kept-in-bf16 kept-in-f16          the sum is rounded to it after each step; of one sum only
// Throws Error (usage) that names the word.
std::vector<Contender> parse_recipe(const Op& op, const Oracle& oracle, const std::string& text);

// The paths of the op that match one of the globs, each in all its dtypes or in the one wanted.
// Those that `runs` does not accept are emulated. Emulated recipes that say the same at `dims` are
// left out after the first.
std::vector<Contender> contenders_of(const Op& op, const Oracle& oracle,
                                     const std::vector<std::string>& globs,
                                     const std::vector<std::string>& recipes,
                                     const std::function<bool(DType)>& wants,
                                     const std::function<bool(const Path&)>& runs, const Dims& dims);

}  // namespace assay::study
