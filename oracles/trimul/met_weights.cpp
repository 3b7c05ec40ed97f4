// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/met_weights.h"

#include <cstring>

namespace assay::trimul::oracle {

ASSAY_VECTORS void meet(const double* factors, const double* panels, size_t nodes, size_t columns,
                        double* to) {
  using Vector [[gnu::vector_size(kLanes * sizeof(double))]] = double;
  for (size_t c = 0; c < columns; c += kLanes) {
    const double* xn = panels + c * nodes;
    Vector sums[kMetRows]{};
    for (size_t k = 0; k < nodes; ++k) {
      Vector one;
      std::memcpy(&one, xn + k * kLanes, sizeof one);
      for (size_t row = 0; row < kMetRows; ++row) sums[row] += factors[k * kMetRows + row] * one;
    }
    for (size_t row = 0; row < kMetRows; ++row)
      std::memcpy(to + row * columns + c, &sums[row], sizeof sums[row]);
  }
}

}  // namespace assay::trimul::oracle
