// SPDX-License-Identifier: Apache-2.0
// Sums whose tree and adders are known: simulated ones, to be found again.
#pragma once

#include <span>
#include <utility>

#include "probe/questions.h"
#include "probe/replay.h"
#include "probe/simulate.h"

namespace assay::test {

// Sums in f32 of factors of `bits` bits. Values are exact, but for the rounding to f32.
inline Reach known(const SumTree& tree, const Adder& adder, int bits = 24,
                   FirstFactor first = FirstFactor::kFree) {
  Reach reach;
  reach.terms = leaf_count(tree);
  reach.first = first;
  reach.factor_bits = bits;
  reach.sums = [tree, adder](const Factors& factors) { return simulated(factors, tree, adder); };
  return reach;
}

// `lanes` strided lanes, each sequential.
inline std::vector<SumTree> strided_lanes(int64_t count, int64_t lanes) {
  std::vector<SumTree> all;
  for (int64_t lane = 0; lane < lanes; ++lane)
    all.push_back(sequential({(count - lane + lanes - 1) / lanes, lane, lanes}));
  return all;
}

// `parts` chunks of `count / parts` terms, each in fused groups of `size`.
inline std::vector<SumTree> fused_chunks(int64_t count, int64_t parts, int64_t size) {
  std::vector<SumTree> all;
  for (int64_t part = 0; part < parts; ++part)
    all.push_back(fused_chain({count / parts, part * (count / parts)}, size));
  return all;
}

}  // namespace assay::test
