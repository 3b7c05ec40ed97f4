// SPDX-License-Identifier: Apache-2.0
// What the cases of one path say together, and none of them alone.
//
// - A comparison that never rejects a wrong answer is worth nothing: if none of the first
//   kMostInVain judged cases could tell, the path is mistrusted.
// - A right path and the kSamples right paths that the judge samples of a case (conformity.h) are
//   alike: on continuous data it is the farthest of all of them from what its recipe computes, all
//   elements together, in 1 case of 5. We allow 1 of 4, and as many cases of n as a binomial
//   distribution with p = 1/4 exceeds with a probability of 1e-9: 33 of 50. So an error that is
//   twice that of right paths, hidden in each single case, shows. Cases in which neither it nor a
//   sample differs from the computed values say nothing. The law is asked after every case: a right
//   path breaks it in at most n of 10^9 runs of n cases.
#pragma once

#include <cstdint>
#include <vector>

#include "properties/core/case.h"
#include "properties/core/verdict.h"

namespace assay {

class AcrossCases {
 public:
  // Changes the verdict on the latest case, once, to what all cases so far say.
  void judge(const Case& which, Verdict& verdict);

 private:
  static constexpr int kMostInVain = 8;
  struct Ranked {
    int64_t cases = 0;
    int64_t farthest = 0;
  };

  void count_in_vain(Verdict& verdict);
  void count_ranks(const Case& which, Verdict& verdict);

  int in_vain_ = 0;
  bool is_earned_ = false;
  std::vector<Ranked> ranked_;  // of each output
  bool is_told_ = false;
};

}  // namespace assay
