// SPDX-License-Identifier: Apache-2.0
// The hidden layer of cheri_block with its errors, and what the second product makes of them. The derivation stands in
// oracles/cheri/cheri.h, under "Kinds of hidden units".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/cheri/factors.h"

namespace assay::cheri::oracle {

// The errors of one z before it is stored: limits, and deviations of errors that average out.
struct Doubt {
  double error = 0;             // limit of all
  double common = 0;            // limit of those that units of a kind share
  double common_shared = 0;     // of which this does not average out,
  double common_deviation = 0;  // and the others have this deviation
  double sum = 0;               // limit of what a unit's own sum adds
  double sum_deviation = 0;
  double variance = 0;  // of all
};

// The hidden values of one kind in one row. `own` is what a unit rounds for itself: z between the steps, g, and its
// product, by the weight's magnitude.
struct Unit {
  double value = 0;             // g
  double slope = 0;             // of gelu at z
  double error = 0;             // limit of what g inherits from z before it is stored
  double common = 0;            // limit of that, as far as units of a kind share it
  double common_shared = 0;     // of which this does not average out,
  double common_deviation = 0;  // and the others have this deviation
  double rest = 0;              // limit of what they do not share
  double evaluation = 0;        // of which this does not average out,
  double rest_square = 0;       // and the others have this square of the deviation
  double own = 0;               // limit, but for storing z
  double own_square = 0;        // sum of its squared limits
  double storing = 0;           // limit of what storing z makes of g
  double storing_bias = 0;      // of which this does not average out
  double own_variance = 0;
  double from_y = 0;  // variance that comes from y through z
};

// The hidden layer of one row, as the factor of the second product.
struct Hidden {
  int64_t n = -1, l = -1;
  bool is_nan = false;
  bool is_open = false;
  std::vector<double> value;  // g of each hidden unit
  std::vector<Unit> kinds;    // not of a counterfeit
  double magnitude = 0;       // sum of |g|
  double repeats = 1;         // r of all
  bool is_repeated = false;   // several kinds have the same |g|
};

// What multiplying a factor with a weight adds, by the weight's magnitude: its representation, what a split leaves out,
// and the sum of as many such products as the weight has columns.
struct ProductError {
  double limit, variance;
};
ProductError product_of(const Format& format, double value, double error, const Weights& weights);

// Makes of z, with its errors, the hidden value of a kind, stored between the steps if the recipe says so. The row is
// opened where right paths differ without limit. `is_doubtful`: some y of the row may be 0.
void activate(const Format& format, const Weights& w2, double z, const Doubt& doubt, bool is_doubtful,
              Hidden& row, Unit& unit);

// The error of sum w2 * g in one channel of out, and the limit `own` of what is not inherited from z. `products` is how
// many are added.
struct SumError {
  double error, variance, own;
};
SumError error_of_products(const Hidden& row, std::span<const Kinds::Column> columns, double coherence,
                           int64_t products);

}  // namespace assay::cheri::oracle
