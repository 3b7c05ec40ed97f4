// SPDX-License-Identifier: Apache-2.0
// What a record says in numbers: of its cases, of the specimens that they judge, and in all.
#pragma once

#include <vector>

#include "reports/record/record.h"

namespace assay {

// How many cases have each verdict.
struct Tally {
  int64_t pass = 0, fail = 0, mistrusted = 0, uninformative = 0, unsupported = 0, crashed = 0, timeout = 0,
          skipped = 0;
  int64_t failures() const { return fail + mistrusted + crashed + timeout; }
  int64_t all() const { return pass + uninformative + unsupported + skipped + failures(); }
  int64_t& operator[](VerdictKind kind);
};
Tally tally(const std::vector<CaseRecord>& cases);

// Points into the record. The specimen at which a run was interrupted counts as not judged.
struct SpecimenSummary {
  const SpecimenRecord* specimen = nullptr;
  int64_t cases = 0;  // judged, up to the one that caught it
  // By this case; null if it survived. The first one that failed. If none did, the first one with
  // an impossible time.
  const CaseRecord* caught = nullptr;
  double seconds = 0;  // [s] that the cases took
};

std::vector<SpecimenSummary> summarize_specimens(const Record& record);  // in the record's order
// What the case says against its specimen.
std::string caught_by(const CaseRecord& item);
int64_t caught_specimens(const std::vector<SpecimenSummary>& specimens);

// The failed cases, and the others, uninformative ones included. Of specimens: those that survived,
// once all were judged, and those that were caught.
struct Outcome {
  int64_t failed, passed;
};
Outcome outcome_of(const Record& record);

}  // namespace assay
