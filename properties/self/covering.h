// SPDX-License-Identifier: Apache-2.0
// Covering arrays: few rows in which every pair of levels of two factors still meets.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace assay::test {

inline constexpr size_t kUnset = static_cast<size_t>(-1);

// The level of each factor, or kUnset.
using Row = std::vector<size_t>;

// Whether the levels that are set may stand in one row, with some levels for the rest.
using IsPossible = std::function<bool(const Row&)>;

struct Pair {
  size_t factor, level, other_factor, other_level;
};

// The possible pairs of levels that no row holds. `levels` counts those of each factor.
std::vector<Pair> uncovered_pairs(const std::vector<size_t>& levels, const IsPossible& is_possible,
                                  const std::vector<Row>& rows);

// Rows that leave no such pair. Each begins with the next uncovered pair; then each factor takes
// the level that covers most pairs with the levels before it. A factor without a possible level is
// kUnset.
std::vector<Row> covering_rows(const std::vector<size_t>& levels, const IsPossible& is_possible);

}  // namespace assay::test
