// SPDX-License-Identifier: Apache-2.0
// What the oracles of the Cheri ops share: convolution, statistics of an example and normalised
// values, each with the error that a right path may make. The derivation stands in
// oracles/cheri/cheri.h, whose symbols are used here.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cheri/cheri.h"
#include "kernels/core/parallel.h"
#include "oracles/core/bound.h"
#include "oracles/core/oracle.h"
#include "oracles/core/read.h"

namespace assay::cheri::oracle {

inline constexpr double kUnit = 0x1p-24;        // u, the unit roundoff of f32
inline constexpr double kUnit64 = 0x1p-53;      // v, that of f64
inline constexpr double kUnderflow = 0x1p-150;  // half the smallest f32
inline constexpr int64_t kTapGroup = 32;        // most terms of dw that are added in f32
// The smallest real that f32 rounds to infinity.
inline constexpr double kOverflow = 0x1.ffffffp127;

// What a counterfeit gets wrong; kNothing for the oracle itself.
enum class Fault : uint8_t {
  kNothing,
  kDilationTooLarge,
  kDilationTooSmall,
  kFirstTapDropped,
  kNoEpsilon,
  kNoEpsilonInTiny,
  kMeanKept,  // mean(dy) is not subtracted
  kNoGelu,
  kScaleTwice,
  kNoScale,
};

// The limit of a sum of errors: `worst` if all of them agree, `squares` is the sum of their squared
// limits.
double limit_of_sum(double worst, double squares, double repeats);
// How many of n additions in f64 count.
double additions_in_f64(double n, double repeats);

// 2^exponent for a normal number.
inline double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// A sum of at most three products in f32.
struct ConvValue {
  double value = 0;
  double error = 0;      // delta
  double variance = 0;   // of the error
  double magnitude = 0;  // S
  int grain = 0;         // all products are multiples of 2^grain; meaningless if the magnitude is 0
};

class SumOfThree {
 public:
  void add(double a, double b) {
    const double product = a * b;
    value_ += product;
    if (product == 0 || !std::isfinite(product)) return;
    products_[count_++] = product;
    magnitude_ += std::abs(product);
    grain_ = std::min(grain_, lowest_exponent(a) + lowest_exponent(b));
  }
  ConvValue result() const;

 private:
  double value_ = 0, magnitude_ = 0;
  double products_[3] = {};
  int count_ = 0;
  int grain_ = 1000;
};

struct Taps {
  Taps(const Question& question, const ConstTensorView& w, Fault fault);

  // The convolution of x(l, c).
  template <class X>
  ConvValue at(const X& x, int64_t l, int64_t c) const {
    SumOfThree sum;
    for (int k = first; k < 3; ++k) {
      const int64_t source = l + (k - 1) * dilation;
      if (source >= 0 && source < length) sum.add(weight(k, c), x(source, c));
    }
    return sum.result();
  }
  // The same without what rounding does to it.
  template <class X>
  double value_at(const X& x, int64_t l, int64_t c) const {
    double sum = 0;
    for (int k = first; k < 3; ++k) {
      const int64_t source = l + (k - 1) * dilation;
      if (source >= 0 && source < length) sum += weight(k, c) * x(source, c);
    }
    return sum;
  }
  double weight(int k, int64_t c) const { return weights[static_cast<size_t>(k * channels + c)]; }
  int64_t count() const { return length * channels; }

  int64_t length, channels, dilation;
  int first = 0;                // tap that is not dropped
  bool is_changed = false;      // the fault makes another convolution of them
  std::vector<double> weights;  // (3, C)
};

// Of one example. All errors are limits in the sense of cheri.h.
struct Statistics {
  double mean = 0;
  double rstd = 0;
  double variance = 0;
  bool is_nan = false;   // the example has an infinity or a NaN
  bool is_open = false;  // a sum may overflow in f32 or not
  bool is_single = false;
  bool has_epsilon = true;
  double held_error = 0;  // of the mean of the rounded values
  double mean_error = 0;  // of the mean, with the errors of the values
  double rstd_error = 0;  // relative, with the roundings of rstd itself
  double mean_variance = 0;
  double rstd_variance = 0;  // of the relative error
  double reach = 0;          // no two values of y are further apart
  double repeats = 1;        // r
};

// Of an example with an infinity or a NaN.
Statistics nan_statistics();
// `values` holds conv of all elements of an example.
Statistics statistics_of(const std::vector<ConvValue>& values);
std::vector<ConvValue> convolve(const std::vector<double>& example, const Taps& taps);
// The same for a counterfeit: without errors.
Statistics values_of(const std::vector<double>& values);
std::vector<double> convolve_values(const std::vector<double>& example, const Taps& taps);

// Leaves eps out of rstd where the fault does.
void leave_epsilon_out(Statistics& statistics, Fault fault, const Taps& taps);

// What is computed once for each example: when it is first asked for, since a counterfeit is mostly
// found out in the first one.
template <class T>
class PerExample {
 public:
  PerExample(int64_t examples, std::function<T(int64_t)> compute)
      : slots_(std::make_unique<Slot[]>(static_cast<size_t>(examples))),
        examples_(examples),
        compute_(std::move(compute)) {}

  const T& operator[](int64_t n) const {
    Slot& slot = slots_[static_cast<size_t>(n)];
    std::call_once(slot.once, [&] { slot.value = compute_(n); });
    return slot.value;
  }
  // All of them; an example has `elements` elements.
  void compute_all(int64_t elements) const {
    parallel_for(examples_, std::max<int64_t>(1, 4096 / std::max<int64_t>(elements, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t n = begin; n < end; ++n) (*this)[n];
                 });
  }
  int64_t size() const { return examples_; }

 private:
  struct Slot {
    std::once_flag once;
    T value;
  };
  std::unique_ptr<Slot[]> slots_;
  int64_t examples_;
  std::function<T(int64_t)> compute_;
};

// Of all examples of x, none if x is empty; a null pointer if the fault changes none of them. For
// the oracle itself all are computed at once.
using AllStatistics = std::shared_ptr<const PerExample<Statistics>>;
AllStatistics all_statistics(const ConstTensorView& x, const Taps& taps, Fault fault);

struct Normalised {
  double value = 0;
  double subtracting = 0;   // error of the differences from the mean
  double local = 0;         // with that of the product: error of the operations after the convolution
  double own = 0;           // with that of the convolution: error of this element alone
  double error = 0;         // with what all elements of the example share
  double own_variance = 0;  // of `own`
  double variance = 0;      // of `error`
};
Normalised normalise(const Statistics& statistics, const ConvValue& conv);

// A value with its error and variance in f32, rounded to storage; f32 needs no rounding more.
Expected stored(double value, double error, double variance, DType storage);

inline Expected open() {
  return {.value = 0, .bound = HUGE_VAL, .variance = 0, .is_open = true};
}

void require_f32_recipe(const Recipe& recipe);

Solve conv_norm(Fault fault);
Solve conv_norm_grad(Fault fault);
Solve block(Fault fault);

}  // namespace assay::cheri::oracle
