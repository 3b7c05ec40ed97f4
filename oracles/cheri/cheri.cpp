// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/cheri.h"

#include "oracles/cheri/convolution.h"

namespace assay::cheri {

std::vector<Oracle> oracles() {
  const auto make = [](std::string_view op, OpFormula formula, std::vector<std::string_view> own_faults) {
    Oracle made{.op = op,
                .formula = formula,
                .faults = {"the dilation is one too large", "the dilation is one too small",
                           "the first tap is dropped"}};
    made.faults.insert(made.faults.end(), own_faults.begin(), own_faults.end());
    return made;
  };
  return {
      make("cheri_conv_norm", oracle::conv_norm, {"eps is left out where the variance is below 1"}),
      make("cheri_conv_norm_grad", oracle::conv_norm_grad,
           {"eps is left out where the variance is below 1", "mean(dy) is not subtracted"}),
      make("cheri_block", oracle::block,
           {"eps is left out where the variance is below a quarter of it",
            "the GELU lets negative values pass", "the scale is applied twice", "the scale is left out"})};
}

}  // namespace assay::cheri
