// SPDX-License-Identifier: Apache-2.0
// Of which edges the roundings of all channels at once are known: what that costs, and what is done in its limits.
#include <algorithm>
#include <utility>

#include "oracles/trimul/roundings.h"

namespace assay::trimul::oracle {
namespace {

constexpr double kMostWork = 0x1p33;  // multiplications
constexpr double kOfTerms = 64;       // of a term of hidden, however few channels xn has
constexpr double kMostSlopes = 0x1p25;
constexpr double kMostGrams = 0x1p25;  // of one node

double size_of(const Dims& dims, Dim dim) {
  return static_cast<double>(dims[dim]);
}

// Of one node of a large problem: pairs of channels at its edges, and multiplications.
double grams_of(const Dims& dims) {
  return size_of(dims, kN) * size_of(dims, kH) * size_of(dims, kH) / 2;
}
double work_of(const Dims& dims) {
  return grams_of(dims) * size_of(dims, kC);
}

}  // namespace

Roundings::Extent Roundings::affordable(const Dims& dims) {
  const double n = size_of(dims, kN), c = size_of(dims, kC);
  const double edges = size_of(dims, kB) * n * n, slopes = size_of(dims, kH) * c;
  const double work = edges * n * (slopes * (c + 4) * 2 + size_of(dims, kH) * kOfTerms);
  if (edges * slopes <= kMostSlopes && work <= kMostWork) return Extent::kAll;
  return grams_of(dims) <= kMostGrams && work_of(dims) <= kMostWork ? Extent::kSome : Extent::kNothing;
}

std::vector<char> Roundings::covered_nodes(const Dims& dims) {
  const int64_t nodes = dims[kN], last = dims[kB] - 1;
  std::vector<char> covered(static_cast<size_t>(dims[kB] * nodes));
  if (covered.empty()) return covered;
  const double most = 2 * std::min(kMostGrams / grams_of(dims), kMostWork / work_of(dims));
  const std::pair<int64_t, int64_t> always[] = {{0, 0}, {0, nodes - 1}, {last, nodes - 2}, {last, nodes - 1}};
  const std::pair<int64_t, int64_t> others[] = {
      {0, nodes - 2}, {0, nodes * 2 / 5}, {last, 0}, {last, nodes * 2 / 5}};
  const auto cover = [&](const std::pair<int64_t, int64_t>& node) {
    if (node.second >= 0) covered[static_cast<size_t>(node.first * nodes + node.second)] = true;
  };
  for (const auto& node : always) cover(node);
  for (const auto& node : others) {
    if (static_cast<double>(std::ranges::count(covered, true)) + 1 <= most) cover(node);
  }
  return covered;
}

bool Roundings::covers(int64_t b, int64_t i, int64_t j) const {
  const size_t first = static_cast<size_t>(b) * nodes_;
  return is_small_ || (!has_fixed_ && is_covered_[first + static_cast<size_t>(i)] &&
                       is_covered_[first + static_cast<size_t>(j)]);
}

}  // namespace assay::trimul::oracle
