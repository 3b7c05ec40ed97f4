// SPDX-License-Identifier: Apache-2.0
// What the oracles of both gradients of conv_norm share. The derivation stands in
// oracles/cheri/cheri.h, whose symbols are used here.
#pragma once

#include <memory>

#include "oracles/cheri/statistics.h"

namespace assay::cheri::oracle {

// What the gradients of one example need besides its statistics.
struct Means {
  double dy = 0;             // m1, the mean of dy
  double dyy = 0;            // m2, that of dy*y
  double dyy_magnitude = 0;  // mean of |dy*y|
  double dy_error = 0;
  double dyy_error = 0;
  double dy_variance = 0;
  double dyy_variance = 0;
};

// dconv of one element, with the error that is its own and the one that it shares with its example.
struct Gradient {
  double value = 0;
  double y = 0;
  double own = 0;
  double error = 0;
  double own_variance = 0;
  double variance = 0;
};

struct Example {
  Statistics statistics;  // NaN also by dy
  Means means;
};

// What all elements of both gradients share.
struct Shared {
  Taps taps;
  // Null if the fault makes no difference on this data.
  std::shared_ptr<const PerExample<Example>> examples;
};

Shared share(const Question& question, Fault fault);

// dconv = rstd * (dy - m1 - y * m2)
Gradient gradient(double dy, const ConvValue& conv, const Statistics& statistics, const Means& means);
// That of a counterfeit.
double gradient_value(double dy, double conv, const Statistics& statistics, const Means& means, Fault fault);

Answer tap_gradient(const Question& question, Fault fault);  // dw

}  // namespace assay::cheri::oracle
