// SPDX-License-Identifier: Apache-2.0
// The normalised convolution, which all Cheri ops begin with.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/cheri/cheri.h"
#include "kernels/core/parallel.h"
#include "oracles/core/oracle.h"
#include "oracles/core/read.h"

namespace assay::cheri::oracle {

// The faults of every op; further ones follow them.
enum Fault : int { kDilationTooLarge = 1, kDilationTooSmall, kFirstTapDropped, kNoEpsilon, kOwnFaults };

// What is computed once for each example, when it is first asked for: a fault mostly shows in the
// first one.
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
  void compute_all() const {
    parallel_for(examples_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) (*this)[n];
    });
  }

 private:
  struct Slot {
    std::once_flag once;
    T value;
  };
  std::unique_ptr<Slot[]> slots_;
  int64_t examples_;
  std::function<T(int64_t)> compute_;
};

class Convolution {
 public:
  // kNoEpsilon leaves eps out where the variance is less than `least_variance`.
  Convolution(const Question& question, Input x, Input w, const Arithmetic& a, int fault,
              double least_variance);

  Ball conv(int64_t n, int64_t l, int64_t c) const;
  const Moments& moments(int64_t n) const { return moments_[n]; }
  Ball y(int64_t n, int64_t l, int64_t c) const { return a.normalise(conv(n, l, c), moments(n)); }
  // Whether the fault changes nothing on this data, as far as that is known at once.
  bool is_unchanged() const { return is_unchanged_; }

  // n, l, c of element number i of an output (N, L, C).
  std::array<int64_t, 3> place(int64_t i) const { return {i / count(), i / channels % length, i % channels}; }
  int64_t count() const { return length * channels; }  // of an example
  double weight(int64_t k, int64_t c) const { return weights_[static_cast<size_t>(k * channels + c)]; }

  const Arithmetic& a;
  const int64_t examples, length, channels;
  // Those of the fault.
  int64_t dilation, first_tap = 0;

 private:
  Moments moments_of(int64_t n) const;

  Reader x_;
  std::vector<double> weights_;
  bool has_no_epsilon_;
  double least_variance_;
  PerExample<Moments> moments_;
  bool is_unchanged_ = false;
};

Evaluate conv_norm(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate conv_norm_grad(const Question& question, int output, const Arithmetic& a, int fault);
Evaluate block(const Question& question, int output, const Arithmetic& a, int fault);

}  // namespace assay::cheri::oracle
