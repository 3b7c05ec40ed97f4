// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/hidden.h"

#include <algorithm>
#include <cmath>

namespace assay::cheri::oracle {

SumError error_of_products(const Hidden& row, std::span<const Kinds::Column> columns, double coherence,
                           int64_t products) {
  double sum = 0, magnitudes = 0;              // of w2 * g
  double inherited = 0, storing = 0, own = 0;  // limits
  double shared = 0, storing_bias = 0;         // of what does not average out
  double deviation = 0;                        // of what kinds have from y, where the errors of all may agree
  double rest_squares = 0, storing_squares = 0, own_squares = 0, variance = 0;
  for (size_t k = 0; k < columns.size(); ++k) {
    const auto& [s, a, q, repeated] = columns[k];
    const Unit& unit = row.kinds[k];
    const double together = s * s;
    const double squares = row.is_repeated ? row.repeats * q : std::max(together, repeated);
    sum += s * unit.value;
    magnitudes += a * std::abs(unit.value);
    inherited += std::min(a * unit.error, std::abs(s) * unit.common + a * unit.rest);
    storing += a * unit.storing;
    own += a * unit.own;
    shared += std::abs(s) * unit.common_shared + a * unit.evaluation;
    storing_bias += a * unit.storing_bias;
    deviation += std::abs(s) * unit.common_deviation;
    rest_squares += squares * unit.rest_square;
    storing_squares += squares * unit.storing * unit.storing;
    own_squares += squares * unit.own_square;
    variance += std::max(together, q) * unit.own_variance + coherence * together * unit.from_y;
  }
  const double of_sum = kAccumulate * kAccumulate * static_cast<double>(products);
  own_squares += row.repeats * of_sum * magnitudes * magnitudes;
  const auto likely = [](double squares) { return limit_of_sum(HUGE_VAL, squares, 1); };
  // Storing z by its limit, or as what averages out.
  double error = inherited + storing + own;
  const auto limit = [&](double stored, double squares) {
    error = std::min({error, inherited + stored + likely(squares),
                      shared + stored + likely(deviation * deviation + rest_squares + squares)});
  };
  limit(storing, own_squares);
  limit(storing_bias, own_squares + storing_squares);
  if (own > 0) error += static_cast<double>(products) * kUnderflow;
  return {.error = error, .variance = variance + of_sum / 9 * sum * sum, .own = own};
}

}  // namespace assay::cheri::oracle
