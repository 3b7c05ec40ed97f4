// SPDX-License-Identifier: Apache-2.0
// What the tests of the gate share: an example's record, changed, and how it compares with the
// example.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "reports/gate/changes.h"
#include "reports/self/fixture.h"

namespace assay::test {

inline void scale(Perf& perf, double factor) {
  for (double& sample : perf.samples_ns) sample *= factor;
  perf.median_ns *= factor;
  for (double& end : perf.ci95_ns) end *= factor;
}

// All cases of a path, or the timed one.
inline std::vector<CaseRecord*> cases_of(Record& record, std::string_view op, std::string_view path,
                                         DType dtype) {
  std::vector<CaseRecord*> found;
  for (CaseRecord& item : record.cases) {
    if (item.which.op == op && item.which.path == path && item.which.dtype == dtype) found.push_back(&item);
  }
  return found;
}

inline CaseRecord& timed_case(Record& record) {
  return *std::ranges::find_if(record.cases,
                               [](const CaseRecord& item) { return item.perf && !item.perf->implausible; });
}

inline CaseRecord& passing_case(Record& record) {
  return *std::ranges::find_if(record.cases, [](const CaseRecord& item) {
    return item.verdict.kind == VerdictKind::kPass && !item.perf;
  });
}

// Multiplies every distance of the path from its recipe by `factor`, or every error against the
// exact values.
inline void grow(Record& record, double factor, bool conforms = false) {
  for (CaseRecord* item : cases_of(record, "dynamic_conv", "cpu", DType::kF32)) {
    for (OutputNumerics& output : item->verdict.outputs) {
      if (conforms) output.comparison.sum_square_error *= factor * factor;
      if (!conforms && output.conformity) output.conformity->rms *= factor;
    }
  }
}

inline Changes changes_of(const std::function<void(Record& after)>& change, const Limits& limits = {}) {
  const Record before = example_record();
  Record after = before;
  change(after);
  return changes_between({&before, 1}, {&after, 1}, limits);
}

}  // namespace assay::test
