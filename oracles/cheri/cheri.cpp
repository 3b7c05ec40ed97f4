// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/cheri.h"

#include "oracles/cheri/statistics.h"

namespace assay::cheri {

std::vector<Oracle> oracles() {
  using oracle::Fault;
  const auto make = [](std::string_view op, Solve (*solve)(Fault),
                       std::vector<std::pair<std::string_view, Fault>> faults) {
    Oracle made{.op = op, .solve = solve(Fault::kNothing), .counterfeits = {}};
    faults.insert(faults.begin(), {{"the dilation is one too large", Fault::kDilationTooLarge},
                                   {"the dilation is one too small", Fault::kDilationTooSmall},
                                   {"the first tap is dropped", Fault::kFirstTapDropped}});
    for (const auto& [fault, which] : faults) made.counterfeits.push_back({fault, solve(which)});
    return made;
  };
  return {make("cheri_conv_norm", oracle::conv_norm,
               {{"eps is left out where the variance is below 1", Fault::kNoEpsilon}}),
          make("cheri_conv_norm_grad", oracle::conv_norm_grad,
               {{"eps is left out where the variance is below 1", Fault::kNoEpsilon},
                {"mean(dy) is not subtracted", Fault::kMeanKept}}),
          make("cheri_block", oracle::block,
               {{"eps is left out where the variance is below a quarter of it", Fault::kNoEpsilonInTiny},
                {"the GELU lets negative values pass", Fault::kNoGelu},
                {"the scale is applied twice", Fault::kScaleTwice},
                {"the scale is left out", Fault::kNoScale}})};
}

}  // namespace assay::cheri
