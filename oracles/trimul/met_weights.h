// SPDX-License-Identifier: Apache-2.0
// What weights of projections meet in hidden: an error d of weight (h,c) of left's projection makes
// hidden[h] wrong by d * sum_k right[h,k] * left'[h,k] * xn[k,c], once for all k.
#pragma once

#include <cstddef>
#include <vector>

#include "oracles/trimul/lanes.h"

namespace assay::trimul::oracle {

inline constexpr size_t kMetRows = 8;  // computed at once

// xn of the edges of one first node, as meet_weights() reads it: (columns / kLanes, N, kLanes),
// from (N, columns).
template <class T>
std::vector<double> panels_of(const std::vector<T>& xn, size_t nodes, size_t columns) {
  std::vector<double> panels(nodes * columns);
  for (size_t k = 0; k < nodes; ++k) {
    for (size_t c = 0; c < columns; ++c)
      panels[(c / kLanes * nodes + k) * kLanes + c % kLanes] = static_cast<double>(xn[k * columns + c]);
  }
  return panels;
}

// (kMetRows, columns) = factors (N, kMetRows), transposed, times xn.
void meet(const double* factors, const double* panels, size_t nodes, size_t columns, double* to);

// (rows, columns): sum_k factor(row, k) * xn[k,c].
template <class Factor>
std::vector<double> meet_weights(size_t rows, const std::vector<double>& panels, size_t nodes, size_t columns,
                                 const Factor& factor) {
  std::vector<double> met((rows + kMetRows - 1) / kMetRows * kMetRows * columns), factors(nodes * kMetRows);
  for (size_t first = 0; first < rows; first += kMetRows) {
    for (size_t row = 0; row < kMetRows; ++row) {
      for (size_t k = 0; k < nodes; ++k)
        factors[k * kMetRows + row] = first + row < rows ? factor(first + row, k) : 0;
    }
    meet(factors.data(), panels.data(), nodes, columns, &met[first * columns]);
  }
  return met;
}

}  // namespace assay::trimul::oracle
