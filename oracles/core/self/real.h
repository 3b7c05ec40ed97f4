// SPDX-License-Identifier: Apache-2.0
// Real numbers of 1600 bits, by MPFR, for audits of formulas that are not sums of products.
#pragma once

#include <mpfr.h>

#include <utility>

namespace assay::test {

class Real {
 public:
  Real(double value = 0) {  // NOLINT(google-explicit-constructor): numbers mix in formulas
    mpfr_init2(value_, kBits);
    mpfr_set_d(value_, value, MPFR_RNDN);
  }
  Real(const Real& other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real& operator=(const Real& other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~Real() { mpfr_clear(value_); }

  friend Real operator+(const Real& a, const Real& b) { return apply(mpfr_add, a, b); }
  friend Real operator-(const Real& a, const Real& b) { return apply(mpfr_sub, a, b); }
  friend Real operator*(const Real& a, const Real& b) { return apply(mpfr_mul, a, b); }
  friend Real operator/(const Real& a, const Real& b) { return apply(mpfr_div, a, b); }
  Real& operator+=(const Real& other) { return *this = *this + other; }
  friend Real sqrt(const Real& a) { return apply(mpfr_sqrt, a); }
  friend Real tanh(const Real& a) { return apply(mpfr_tanh, a); }
  static Real pi() {
    Real result;
    mpfr_const_pi(result.value_, MPFR_RNDN);
    return result;
  }

  mpfr_srcptr get() const { return value_; }

 private:
  static constexpr int kBits = 1600;

  template <class Function>
  static Real apply(Function function, const Real& a, const Real& b) {
    Real result;
    function(result.value_, a.value_, b.value_, MPFR_RNDN);
    return result;
  }
  template <class Function>
  static Real apply(Function function, const Real& a) {
    Real result;
    function(result.value_, a.value_, MPFR_RNDN);
    return result;
  }

  mpfr_t value_;
};

}  // namespace assay::test
