// SPDX-License-Identifier: Apache-2.0
#include "properties/self/edge_cases.h"

#include <algorithm>

#include "properties/core/generate.h"
#include "properties/core/random.h"

namespace assay::test {

std::vector<int64_t> boundary_sizes(const DimInfo& dim) {
  std::vector<int64_t> sizes{dim.min, 1, 2};
  for (int64_t edge : dim.edges) sizes.insert(sizes.end(), {edge - 1, edge, edge + 1});
  if (is_short(dim)) sizes.insert(sizes.end(), {dim.max - 1, dim.max});
  std::erase_if(sizes, [&](int64_t size) { return size < dim.min || size > dim.max; });
  std::ranges::sort(sizes);
  const auto repeated = std::ranges::unique(sizes);
  sizes.erase(repeated.begin(), repeated.end());
  return sizes;
}

Edges::Edges(const Op& op, const Path& path, int64_t elements) : op_(op), path_(path), elements_(elements) {
  for (const DimInfo& dim : op.dims) {
    sizes_.push_back(boundary_sizes(dim));
    std::erase(sizes_.back(), 0);
    levels_.push_back(sizes_.back().size());
  }
  levels_.insert(levels_.end(), {all_layouts().size(), path.dtypes.size(), 2});
}

// A size that is not set is 1, or 2 where the layout asks for two slices.
Dims Edges::dims_of(const Row& row) const {
  const size_t layout = row[sizes_.size()];
  const bool wants_slices = layout != kUnset && (all_layouts()[layout] == Layout::kBroadcast ||
                                                 all_layouts()[layout] == Layout::kInflated);
  const auto is_outermost = [&](const DimInfo& dim) {
    const auto begins_with = [&](const TensorInfo& tensor) { return axes_of(tensor).front() == dim.key; };
    return std::ranges::any_of(op_.inputs, begins_with) || std::ranges::any_of(op_.outputs, begins_with);
  };
  Dims dims;
  for (size_t d = 0; d < sizes_.size(); ++d) {
    const DimInfo& dim = op_.dims[d];
    const int64_t simplest = std::clamp<int64_t>(wants_slices && is_outermost(dim) ? 2 : 1, dim.min, dim.max);
    dims.set(dim.key, row[d] == kUnset ? simplest : sizes_[d][row[d]]);
  }
  return dims;
}

bool Edges::is_possible(const Row& row) const {
  const EdgeCase which = at(row);
  return largest_tensor(op_, which.dims) <= elements_ && is_legal(which.layout, op_, which.dims);
}

EdgeCase Edges::at(const Row& row) const {
  const auto level = [&](size_t factor) { return row[factor] == kUnset ? 0 : row[factor]; };
  const size_t rest = sizes_.size();
  return {.dims = dims_of(row),
          .layout = all_layouts()[level(rest)],
          .dtype = path_.dtypes[level(rest + 1)],
          .is_low = level(rest + 2) != 0};
}

std::vector<EdgeCase> Edges::pairs() const {
  std::vector<EdgeCase> cases;
  for (const Row& row : covering_rows(levels_, [&](const Row& r) { return is_possible(r); })) {
    cases.push_back(at(row));
  }
  for (const DimInfo& dim : op_.dims) {
    if (dim.min > 0) continue;
    for (size_t factor = 0; factor < levels_.size(); ++factor) {
      for (size_t level = 0; level < levels_[factor]; ++level) {
        Row row(levels_.size(), kUnset);
        row[factor] = level;
        EdgeCase empty = at(row);
        empty.dims.set(dim.key, 0);
        if (is_legal(empty.layout, op_, empty.dims)) cases.push_back(std::move(empty));
      }
    }
  }
  return cases;
}

std::vector<EdgeCase> Edges::random(size_t most) const {
  std::vector<Dims> all{dims_of(Row(levels_.size(), kUnset))};
  for (const DimInfo& dim : op_.dims) {
    std::vector<Dims> more;
    for (const Dims& dims : all) {
      for (int64_t size : boundary_sizes(dim)) {
        more.push_back(dims);
        more.back().set(dim.key, size);
      }
    }
    std::erase_if(more, [&](const Dims& dims) { return largest_tensor(op_, dims) > elements_; });
    const CounterRandom random(0, more.size());
    all.clear();
    for (size_t i = 0; i < more.size(); ++i) {
      if (random.uniform(i) * static_cast<double>(more.size()) < static_cast<double>(most))
        all.push_back(std::move(more[i]));
    }
  }
  const auto layouts = all_layouts();
  std::vector<EdgeCase> cases;
  size_t turn = 0;
  for (Dims& dims : all) {
    while (!is_legal(layouts[turn % layouts.size()], op_, dims)) ++turn;
    const size_t round = turn / layouts.size();
    cases.push_back({.dims = std::move(dims),
                     .layout = layouts[turn % layouts.size()],
                     .dtype = path_.dtypes[round % path_.dtypes.size()],
                     .is_low = round / path_.dtypes.size() % 2 != 0});
    ++turn;
  }
  return cases;
}

}  // namespace assay::test
