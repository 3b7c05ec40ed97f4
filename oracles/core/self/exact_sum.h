// SPDX-License-Identifier: Apache-2.0
// A number of 640 bits, by MPFR: a sum of products without any rounding, or any other value. The
// oracles are audited against it.
#pragma once

#include <mpfr.h>

#include <cmath>

#include "oracles/core/self/real.h"

namespace assay::test {

class ExactSum {
 public:
  // Products of f32 values lie between 2^-298 and 2^256, so 640 bits hold every sum of less than
  // 2^80 of them.
  ExactSum() {
    mpfr_inits2(640, sum_, product_, difference_, nullptr);
    mpfr_set_zero(sum_, 1);
  }
  ~ExactSum() { mpfr_clears(sum_, product_, difference_, nullptr); }
  ExactSum(const ExactSum&) = delete;
  ExactSum& operator=(const ExactSum&) = delete;

  void add(double a, double b) {
    magnitude_ += std::abs(a * b);
    mpfr_set_d(product_, a, MPFR_RNDN);
    mpfr_mul_d(product_, product_, b, MPFR_RNDN);
    mpfr_add(sum_, sum_, product_, MPFR_RNDN);
  }

  void add(const Real& value) { mpfr_add(sum_, sum_, value.get(), MPFR_RNDN); }

  double magnitude() const { return magnitude_; }  // sum of |a*b|, rounded
  double nearest() const { return mpfr_get_d(sum_, MPFR_RNDN); }
  // |value - sum|, rounded up; 0 only if they are equal.
  double distance(double value) {
    mpfr_d_sub(difference_, value, sum_, MPFR_RNDN);
    mpfr_abs(difference_, difference_, MPFR_RNDN);
    return mpfr_get_d(difference_, MPFR_RNDU);
  }

 private:
  mpfr_t sum_, product_, difference_;
  double magnitude_ = 0;
};

}  // namespace assay::test
