// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/cheri.h"

#include "oracles/cheri/convolution.h"

namespace assay::cheri {

std::vector<Oracle> oracles() {
  const std::string_view large = "the dilation is one too large", small = "the dilation is one too small",
                         dropped = "the first tap is dropped",
                         no_eps = "eps is left out where the variance is below 1",
                         no_eps_in_tiny = "eps is left out where the variance is below a quarter of it";
  const std::vector<Plant::Kind> eps{Plant::Kind::kEpsilonTimes10, Plant::Kind::kEpsilonOver10};
  return {{.op = "cheri_conv_norm",
           .formula = oracle::conv_norm,
           .faults = {large, small, dropped, no_eps},
           .sums = {site::kConv},
           .plants = eps,
           .block_axes = {1}},
          {.op = "cheri_conv_norm_grad",
           .formula = oracle::conv_norm_grad,
           .faults = {large, small, dropped, no_eps, "mean(dy) is not subtracted"},
           .sums = {site::kConv, site::kDx, site::kDw},
           .plants = eps,
           .block_axes = {1, 0}},
          {.op = "cheri_block",
           .formula = oracle::block,
           .faults = {large, small, dropped, no_eps_in_tiny, "the GELU lets negative values pass",
                      "the scale is applied twice", "the scale is left out"},
           .sums = {site::kConv, site::kExpansion, site::kContraction},
           .plants = {eps[0], eps[1], Plant::Kind::kGeluOff},
           .block_axes = {1},
           .doubt_axes = 2}};
}

}  // namespace assay::cheri
