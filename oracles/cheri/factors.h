// SPDX-License-Identifier: Apache-2.0
// The factors of cheri_block's two products and its activation, with the errors that a recipe allows them. The derivation
// stands in oracles/cheri/cheri.h.
#pragma once

#include <optional>
#include <vector>

#include "oracles/cheri/statistics.h"

namespace assay::cheri::oracle {

// How a recipe represents the factors of both products.
struct Format {
  explicit Format(const Recipe& recipe);  // throws Error (internal) if no bound is derived for it

  // The error of storing z, known up to `error`, between steps; and of making it a factor.
  double rounding(double z, double error) const;
  // The smallest real that becomes an infinity between the steps.
  double overflow(bool is_factor) const;

  DType intermediate;
  std::optional<DType> factor;  // what factors are rounded to
  bool is_split = false;        // bf16x3
  int products = 1;             // products in place of one
};

struct Weights {
  // For a counterfeit, which makes no errors of its own, the values alone.
  Weights(const ConstTensorView& view, const Format& format, bool is_folded, bool is_counterfeit);

  const double* row(int64_t i) const { return &values[static_cast<size_t>(i * columns)]; }

  std::vector<double> values;
  int64_t rows, columns;
  double relative;     // error of an element as a factor, by its magnitude
  double absolute;     // and whatever its magnitude, if it underflows
  double certain = 1;  // variance of that error by a third of its square: few errors do not average out
  double repeats = 1;  // most equal elements of a row
  std::vector<double> norms;  // of each row
};

double gelu(double z);
double gelu_slope(double z);
// An upper limit of |gelu(z + e) - gelu(z)| for |e| <= error, where `slope` is gelu_slope(z).
double gelu_error(double z, double error, double slope);

}  // namespace assay::cheri::oracle
