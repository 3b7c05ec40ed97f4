// SPDX-License-Identifier: Apache-2.0
#include "reports/record/tally.h"

#include <algorithm>
#include <map>
#include <utility>

namespace assay {

Tally tally(const std::vector<CaseRecord>& cases) {
  Tally counts;
  for (const CaseRecord& item : cases) ++counts[item.verdict.kind];
  return counts;
}

int64_t& Tally::operator[](VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass:
      return pass;
    case VerdictKind::kFail:
      return fail;
    case VerdictKind::kMistrusted:
      return mistrusted;
    case VerdictKind::kUninformative:
      return uninformative;
    case VerdictKind::kUnsupported:
      return unsupported;
    case VerdictKind::kCrashed:
      return crashed;
    case VerdictKind::kTimeout:
      return timeout;
    case VerdictKind::kSkipped:
      return skipped;
  }
  throw Error("VerdictKind({}) is not a verdict", static_cast<int>(kind));
}

namespace {

bool has_impossible_time(const CaseRecord& item) {
  return (item.perf && item.perf->implausible) || (item.perf_warm && item.perf_warm->implausible);
}

}  // namespace

std::vector<SpecimenSummary> summarize_specimens(const Record& record) {
  std::vector<SpecimenSummary> specimens;
  std::map<std::pair<std::string, std::string>, size_t> places;
  for (const SpecimenRecord& specimen : record.specimens) {
    places.emplace(std::pair(specimen.op, specimen.path), specimens.size());
    specimens.push_back({.specimen = &specimen});
  }
  std::optional<size_t> last;  // to be judged
  for (const CaseRecord& item : record.cases) {
    const auto place = places.find({item.which.op, item.which.path});
    if (place == places.end()) continue;
    SpecimenSummary& specimen = specimens[place->second];
    if (specimen.caught != nullptr) continue;
    ++specimen.cases;
    specimen.seconds += item.seconds.value_or(0);
    const VerdictKind kind = item.verdict.kind;
    if (is_failure(kind) && kind != VerdictKind::kMistrusted) specimen.caught = &item;
    last = place->second;
  }
  for (const CaseRecord& item : record.cases) {
    const auto place = places.find({item.which.op, item.which.path});
    if (place == places.end() || !has_impossible_time(item)) continue;
    SpecimenSummary& specimen = specimens[place->second];
    if (specimen.caught == nullptr && (record.complete || last != place->second)) specimen.caught = &item;
  }
  // Nobody knows what the cases would have shown that an interrupted run has not judged.
  if (!record.complete && last && specimens[*last].caught == nullptr) specimens[*last].cases = 0;
  return specimens;
}

std::string caught_by(const CaseRecord& item) {
  if (is_failure(item.verdict.kind)) return item.verdict.reason;
  for (const std::optional<Perf>* const perf : {&item.perf, &item.perf_warm}) {
    if (*perf && (*perf)->implausible)
      return fmt::format("its time is implausible: {}", *(*perf)->implausible);
  }
  throw Error("{} catches nothing", item.which.to_string());
}

int64_t caught_specimens(const std::vector<SpecimenSummary>& specimens) {
  return std::ranges::count_if(specimens, [](const auto& one) { return one.caught != nullptr; });
}

Outcome outcome_of(const Record& record) {
  const Tally counts = tally(record.cases);
  if (record.specimens.empty())
    return {.failed = counts.failures(), .passed = counts.pass + counts.uninformative};
  const int64_t caught = caught_specimens(summarize_specimens(record));
  return {.failed = record.complete ? std::ssize(record.specimens) - caught : 0, .passed = caught};
}

}  // namespace assay
