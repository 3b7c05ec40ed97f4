// SPDX-License-Identifier: Apache-2.0
// dynamic_conv and its gradient by lag rather than by tap: x[t-lag] meets tap W-1-lag.
#include "oracles/core/self/audit.h"

namespace assay::dynamic_conv {
namespace {

using test::Dense;
using test::ExactSum;

void out_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t taps = dims["w"];
  for (int64_t lag = 0; lag < taps && lag <= at[1]; ++lag) {
    sum.add(in[1]({at[0], at[1], at[2], taps - 1 - lag}), in[0]({at[0], at[1] - lag, at[2]}));
  }
}

void dx_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t taps = dims["w"];
  for (int64_t lag = 0; lag < taps && at[1] + lag < dims["t"]; ++lag) {
    sum.add(in[0]({at[0], at[1] + lag, at[2]}), in[2]({at[0], at[1] + lag, at[2], taps - 1 - lag}));
  }
}

void dk_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t lag = dims["w"] - 1 - at[3];
  if (at[1] >= lag) sum.add(in[0]({at[0], at[1], at[2]}), in[1]({at[0], at[1] - lag, at[2]}));
}

}  // namespace

std::vector<test::Audit> audits() {
  return {{"dynamic_conv", {out_terms}}, {"dynamic_conv_grad", {dx_terms, dk_terms}}};
}

}  // namespace assay::dynamic_conv
