// SPDX-License-Identifier: Apache-2.0
// The hidden layer of cheri_block with its errors, and what the second product makes of them. The
// derivation is in oracles/cheri/cheri.h, under "Kinds of hidden units".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "oracles/cheri/factors.h"

namespace assay::cheri::oracle {

// The errors of one z before it is stored. A limit bounds the magnitude of an error. A deviation
// (sub-Gaussian, oracles/cheri/cheri.h) describes errors that average out.
struct Doubt {
  double error = 0;             // limit of all errors
  double common = 0;            // limit of the errors that units of a kind share
  double common_shared = 0;     // part of `common` that does not average out
  double common_deviation = 0;  // deviation of the rest of `common`
  double sum = 0;               // limit of the error that a unit's own sum adds
  double sum_deviation = 0;
  double variance = 0;  // variance of all errors
};

// The hidden values of one kind in one row. A unit makes roundings of its own: of z between the
// steps, of g, and of the product of g with its weight. `own` is their error, as a multiple of the
// weight's magnitude.
struct Unit {
  double value = 0;             // g
  double slope = 0;             // of gelu at z
  double error = 0;             // limit of the error that g inherits from z before z is stored
  double common = 0;            // limit of the part of `error` that units of a kind share
  double common_shared = 0;     // part of `common` that does not average out
  double common_deviation = 0;  // deviation of the rest of `common`
  double rest = 0;              // limit of the part of `error` that units do not share
  double evaluation = 0;        // part of `rest` that does not average out
  double rest_square = 0;       // squared deviation of the rest of `rest`
  double own = 0;               // limit of `own` without storing z
  double own_square = 0;        // sum of the squared limits in `own`
  double storing = 0;           // limit of the error of g from storing z
  double storing_bias = 0;      // part of `storing` that does not average out
  double own_variance = 0;
  double from_y = 0;  // variance that g gets from y through z
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

// What multiplying a factor with a weight adds, by the weight's magnitude: its representation, what
// a split leaves out, and the sum of as many such products as the weight has columns.
struct ProductError {
  double limit, variance;
};
ProductError product_of(const Format& format, double value, double error, const Weights& weights);

// Makes of z, with its errors, the hidden value of a kind, stored between the steps if the recipe
// says so. The row is opened where right paths differ without limit. `is_doubtful`: some y of the
// row may be 0.
void activate(const Format& format, const Weights& w2, double z, const Doubt& doubt, bool is_doubtful,
              Hidden& row, Unit& unit);

// The error of sum w2 * g in one channel of out, and the limit `own` of what is not inherited from
// z. `products` is how many are added.
struct SumError {
  double error, variance, own;
};
SumError error_of_products(const Hidden& row, std::span<const Kinds::Column> columns, double coherence,
                           int64_t products);

}  // namespace assay::cheri::oracle
