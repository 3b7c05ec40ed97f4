// SPDX-License-Identifier: Apache-2.0
// dynamic_conv and its gradient by lag rather than by tap: x[t-lag] meets tap W-1-lag.
#include "oracles/core/self/audit.h"

#include "kernels/dynamic_conv/dynamic_conv.h"

namespace assay::dynamic_conv {
namespace {

using test::Dense;
using test::ExactSum;

void out_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t taps = dims[kW];
  for (int64_t lag = 0; lag < taps && lag <= at[1]; ++lag) {
    sum.add(in[kK]({at[0], at[1], at[2], taps - 1 - lag}), in[kX]({at[0], at[1] - lag, at[2]}));
  }
}

void dx_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t taps = dims[kW];
  for (int64_t lag = 0; lag < taps && at[1] + lag < dims[kT]; ++lag) {
    sum.add(in[grad::kDout]({at[0], at[1] + lag, at[2]}),
            in[grad::kK]({at[0], at[1] + lag, at[2], taps - 1 - lag}));
  }
}

void dk_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t lag = dims[kW] - 1 - at[3];
  if (at[1] >= lag)
    sum.add(in[grad::kDout]({at[0], at[1], at[2]}), in[grad::kX]({at[0], at[1] - lag, at[2]}));
}

}  // namespace

std::vector<test::Audit> audits() {
  return {{"dynamic_conv", {out_terms}}, {"dynamic_conv_grad", {dx_terms, dk_terms}}};
}

}  // namespace assay::dynamic_conv
