// SPDX-License-Identifier: Apache-2.0
// What a record says of the specimens that it judged.
#pragma once

#include <vector>

#include "reports/record/record.h"

namespace assay {

// Points into the record.
struct SpecimenSummary {
  const SpecimenRecord* specimen = nullptr;
  int64_t cases = 0;                   // judged, up to the one that caught it
  const CaseRecord* caught = nullptr;  // by this case; null if it survived
  double seconds = 0;                  // [s] that the cases took
};

std::vector<SpecimenSummary> summarize_specimens(const Record& record);  // in the record's order
int64_t caught_specimens(const std::vector<SpecimenSummary>& specimens);

// How many cases failed and passed. Of specimens: how many survived, once all were judged, and how
// many were caught.
struct Outcome {
  int64_t failed, passed;
};
Outcome outcome_of(const Record& record);

}  // namespace assay
