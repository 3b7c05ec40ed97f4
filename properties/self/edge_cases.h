// SPDX-License-Identifier: Apache-2.0
// Cases at the edges of an op: the sizes at which some path may change its behaviour, together.
#pragma once

#include <vector>

#include "properties/core/case.h"
#include "properties/self/covering.h"

namespace assay::test {

// The smallest size, 1, 2, and the neighbourhood of every edge and of the largest of a short
// dimension.
std::vector<int64_t> boundary_sizes(const DimInfo& dim);

struct EdgeCase {
  Dims dims;
  Layout layout;
  DType dtype;
  bool is_low;  // thresholds are low
};

// What may vary in an edge case: the size of each dimension, the layout, the dtype, and whether
// thresholds are low. No tensor has more than `elements` elements.
class Edges {
 public:
  Edges(const Op& op, const Path& path, int64_t elements);

  // Of each factor; sizes of 0 are none.
  const std::vector<size_t>& levels() const { return levels_; }
  bool is_possible(const Row& row) const;
  EdgeCase at(const Row& row) const;  // a factor that is not set takes its simplest level

  // Each possible pair of levels meets; and each empty dimension.
  std::vector<EdgeCase> pairs() const;
  // Of all combinations of sizes; the rest takes turns.
  std::vector<EdgeCase> random(size_t most) const;

 private:
  Dims dims_of(const Row& row) const;

  const Op& op_;
  const Path& path_;
  int64_t elements_;
  std::vector<std::vector<int64_t>> sizes_;  // of each dimension
  std::vector<size_t> levels_;
};

}  // namespace assay::test
