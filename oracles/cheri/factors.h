// SPDX-License-Identifier: Apache-2.0
// The factors of cheri_block's two products and its activation, with the errors that a recipe
// allows them. The derivation stands in oracles/cheri/cheri.h.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "oracles/cheri/statistics.h"

namespace assay::cheri::oracle {

inline constexpr double kAccumulate = kTensorCoreUnit;  // q

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

  const double* row(int64_t i) const { return values.data() + i * columns; }

  std::vector<double> values;
  int64_t rows, columns;
  double relative;  // error of an element as a factor, by its magnitude
  double absolute;  // and whatever its magnitude, if it underflows
  // Variance of that error by a third of its square: few errors do not average out.
  double certain = 1;
  double repeats = 1;         // most equal elements of a row, if they have errors
  std::vector<double> norms;  // of each row
};

// Hidden units with equal rows of w1 are of one kind: they have the same z, and out multiplies what
// they share by the sum of their weights.
class Kinds {
 public:
  // What one channel of out makes of a kind; the names are those of oracles/cheri/cheri.h.
  struct Column {
    double sum = 0;        // S
    double magnitude = 0;  // A
    double squares = 0;    // Q
    double repeated = 0;   // Q'
  };

  Kinds() = default;
  Kinds(const Weights& w1, const Weights& w2);

  size_t count() const { return first_.size(); }
  // A hidden unit of the kind, and the kind of a hidden unit.
  int64_t unit_of(size_t kind) const { return first_[kind]; }
  size_t kind_of(int64_t unit) const { return kinds_[static_cast<size_t>(unit)]; }
  // Of each kind.
  std::span<const Column> columns(int64_t channel) const {
    return std::span(columns_).subspan(static_cast<size_t>(channel) * count(), count());
  }

 private:
  std::vector<int64_t> first_;
  std::vector<size_t> kinds_;
  std::vector<Column> columns_;  // (C, kinds)
};

double gelu(double z);
double gelu_slope(double z);
// An upper limit of |gelu(z + e) - gelu(z)| for |e| <= error, where `slope` is gelu_slope(z).
double gelu_error(double z, double error, double slope);
// The same of |gelu(z + e) - gelu(z) - slope * e|.
double gelu_remainder(double z, double error, double slope);

}  // namespace assay::cheri::oracle
