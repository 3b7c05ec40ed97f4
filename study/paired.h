// SPDX-License-Identifier: Apache-2.0
// Two studies of the same draws, compared cell by cell.
#pragma once

#include <string>
#include <vector>

#include "study/study.h"

namespace assay::study {

// One output of one contender in both. Cells of different points and draws have independent inputs,
// so that of a path that did not change for the worse each differing cell is as likely better as
// worse. Outputs of one draw have common inputs: each output is a test of its own.
struct Paired {
  std::string contender, output;
  int64_t better = 0, worse = 0, equal = 0;  // cells, by their normwise error
  // Of the worse ones: not there, without errors, not finite, or outside their balls, and not so
  // before.
  int64_t lost = 0;
  double ratio = 1;        // the median of after / before
  double probability = 1;  // of the sign test
  // "gone" if the contender is. "worse" if a cell is lost. Else "worse" or "better" if the
  // probability is below 1 % over the number of tests, else "unclear"; "equal" if no cell differs.
  std::string reading = {};
};

// Throws Error (usage) unless both have the same op and seed, and some cell in common.
std::vector<Paired> compare(const Study& before, const Study& after);

}  // namespace assay::study
