// SPDX-License-Identifier: Apache-2.0
#include "probe/bound.h"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

// (1 + first)(1 + second) - 1
double both(double first, double second) {
  return first + second + first * second;
}

double unit_of(const Adder& adder) {
  const bool is_nearest =
      adder.mode == RoundingMode::kNearestEven || adder.mode == RoundingMode::kNearestAway;
  return std::ldexp(1.0, (is_nearest ? 0 : 1) - adder.bits);
}

bool is_added_unrounded(int64_t term, const Adder& adder) {
  const auto k = static_cast<size_t>(term);
  return k < adder.is_fused.size() && adder.is_fused[k];
}

}  // namespace

double bound_of_tree(const SumTree& tree, const Adder& adder) {
  const double unit = unit_of(adder);
  if (tree.is_leaf()) return is_added_unrounded(tree.leaf, adder) ? 0 : unit;
  const bool is_group = adder.fraction && std::ranges::any_of(tree.parts, &SumTree::is_leaf);
  double bound = 0;
  for (const SumTree& part : tree.parts) {
    if (!is_group || !part.is_leaf()) bound = std::max(bound, bound_of_tree(part, adder));
  }
  const auto parts = static_cast<double>(tree.parts.size());
  if (is_group)
    return both(bound, both(parts * std::ldexp(1.0, -*adder.fraction), std::ldexp(1.0, 1 - adder.bits)));
  for (size_t i = 1; i < tree.parts.size(); ++i) bound = both(bound, unit);
  return bound;
}

}  // namespace assay
