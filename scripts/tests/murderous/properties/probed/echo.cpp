// SPDX-License-Identifier: Apache-2.0
// Two terms that are added before the call: a probe has something to call the paths for.
#include "kernels/echo/echo.h"

#include "properties/core/probed_sum.h"

namespace assay::echo {

std::vector<ProbedSum> probed_sums() {
  return {{.op = "echo",
           .site = {0, "x"},
           .what = "the sum of two terms",
           .usual_terms = 2,
           .most_terms = 2,
           .most_sums = [](int64_t) { return int64_t{100}; },
           .dims =
               [](int64_t, int64_t sums) {
                 return Dims{{kN, sums}};
               },
           .encode =
               [](const Factors& f, size_t, const Extents& i) {
                 return f.a[f.at(i[0], 0)] * f.b[f.at(i[0], 0)] + f.a[f.at(i[0], 1)] * f.b[f.at(i[0], 1)];
               },
           .decode = [](const Factors&, const Values& out, int64_t sum) { return out.at(kOut, {sum}); }}};
}

}  // namespace assay::echo
