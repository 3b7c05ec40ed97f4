// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "properties/core/conformity.h"
#include "reports/gate/compared.h"

namespace assay {
namespace {

bool is_judged(VerdictKind kind) {
  return kind == VerdictKind::kPass || is_failure(kind);
}

// A side may have several runs. Of the earlier side the best verdict on a case counts, of the later
// side the worst. So a case is a new failure if it passed once and fails once, and gone if it was
// judged once and is missing once.
enum class Side : uint8_t { kBefore, kAfter };
using CaseKey = std::tuple<std::string, std::string>;

std::map<CaseKey, const CaseRecord*> cases_of(Records runs, Side side) {
  const auto rank = [&](const CaseRecord& item) {
    const VerdictKind kind = item.verdict.kind;
    if (side == Side::kBefore) return kind == VerdictKind::kPass ? 2 : is_failure(kind) ? 1 : 0;
    return is_failure(kind) ? 2 : kind == VerdictKind::kPass ? 0 : 1;
  };
  std::map<CaseKey, const CaseRecord*> cases;
  for (const Record& run : runs) {
    for (const CaseRecord& item : run.cases) {
      const CaseRecord*& known = cases[{item.device, item.which.to_string()}];
      if (known == nullptr || rank(item) > rank(*known)) known = &item;
    }
  }
  return cases;
}

// Sums over the cases of a path.
struct PathErrors {
  const CaseRecord* any = nullptr;
  int64_t judged_before = 0, judged_after = 0;
  int64_t shared = 0;                            // judged by both sides
  int64_t absent = 0;                            // judged before, and not among the later cases
  int64_t cases = 0;                             // passed by both, with errors to compare
  int64_t outputs = 0;                           // that have a conformity
  int64_t exact_outputs = 0;                     // with errors against the exact values
  double squares_before = 0, squares_after = 0;  // of rms/allowed
  double squares_accuracy = 0, squares_exact = 0;
  double worst_before = 0, worst_after = 0;
  double growth = 0;
  const CaseRecord* grown = nullptr;

  void add(const CaseRecord& then, const CaseRecord& now, Changes& changes);
  ErrorChange change(const Limits& limits) const;
};

void PathErrors::add(const CaseRecord& then, const CaseRecord& now, Changes& changes) {
  bool counts = false;
  for (const OutputNumerics& before : then.verdict.outputs) {
    const auto after = std::ranges::find(now.verdict.outputs, before.name, &OutputNumerics::name);
    if (after == now.verdict.outputs.end() || after->comparison.count < before.comparison.count) {
      changes.gone.push_back(
          {fmt::format("{} of {}", before.name, now.which.to_string()), "fewer elements compared"});
      continue;
    }
    worst_before = std::max(worst_before, before.comparison.max_error_over_bound);
    worst_after = std::max(worst_after, after->comparison.max_error_over_bound);
    const bool is_large = before.comparison.count >= kFewestOfLaw;
    const double allowed =
        is_large && before.conformity && after->conformity ? before.conformity->allowed : 0;
    const double error = after->comparison.rms(), scale = std::max(before.comparison.rms(), allowed);
    if (is_large && (error != 0 || scale != 0)) {
      counts = true;
      ++exact_outputs;
      squares_accuracy += std::pow(error / scale, 2);  // infinite if all was exact
      const double was = before.comparison.rms();
      squares_exact += was == error ? 1 : std::pow(error / was, 2);
    }
    if (allowed == 0) continue;  // too few elements, or nothing is rounded
    const double was = before.conformity->rms / allowed, is = after->conformity->rms / allowed;
    counts = true;
    ++outputs;
    squares_before += was * was;
    squares_after += is * is;
    const double more = std::isnan(is) ? std::numeric_limits<double>::infinity() : is - was;
    if (more > growth) {
      growth = more;
      grown = &now;
    }
  }
  cases += counts ? 1 : 0;
}

ErrorChange PathErrors::change(const Limits& limits) const {
  const auto rms = [](double squares, int64_t count) {
    return count == 0 ? 0 : std::sqrt(squares / static_cast<double>(count));
  };
  const double was = rms(squares_before, outputs), is = rms(squares_after, outputs);
  ErrorChange change{.op = any->which.op,
                     .path = any->which.path,
                     .dtype = any->which.dtype,
                     .device = any->device,
                     .cases = cases,
                     .before = was,
                     .after = is,
                     .ratio = is == was ? 1 : is / was,
                     .accuracy = rms(squares_accuracy, exact_outputs),
                     .exact = exact_outputs == 0 ? 1 : rms(squares_exact, exact_outputs),
                     .growth = growth,
                     .grown = {},
                     .worst_before = worst_before,
                     .worst_after = worst_after,
                     .change = Change::kSame};
  if (grown != nullptr) change.grown = grown->which;
  const double most = 1 + limits.more_wrong;
  if (change.ratio < 1 / most || change.exact < 1 / most) change.change = Change::kBetter;
  if (!(change.ratio <= most) || !(change.accuracy <= most) || !(growth <= limits.more_wrong))
    change.change = Change::kWorse;
  return change;
}

// Compares a case of the later side with what the earlier side said of it; `then` may be null.
void compare_case(const CaseRecord& now, const CaseRecord* then, PathErrors& path, Changes& changes) {
  const VerdictKind kind = now.verdict.kind;
  path.judged_after += is_judged(kind) ? 1 : 0;
  if (is_failure(kind)) {
    changes.failures.push_back({.which = now.which,
                                .device = now.device,
                                .after = kind,
                                .reason = now.verdict.reason,
                                .before = {}});
    if (then != nullptr) changes.failures.back().before = then->verdict.kind;
  }
  if (then == nullptr || !is_judged(then->verdict.kind)) return;
  if (!is_judged(kind)) {
    changes.gone.push_back({now.which.to_string(), fmt::format("{}: {}", name_of(kind), now.verdict.reason)});
    return;
  }
  ++path.shared;
  if (kind == VerdictKind::kPass && then->verdict.kind == VerdictKind::kPass) path.add(*then, now, changes);
}

}  // namespace

void compare_cases(Records before, Records after, const Limits& limits, Changes& changes) {
  const auto then = cases_of(before, Side::kBefore), now = cases_of(after, Side::kAfter);
  std::map<std::string, PathErrors> paths;
  const auto path_of = [&](const CaseRecord& item) -> PathErrors& {
    PathErrors& path = paths[path_text(item)];
    path.any = &item;
    return path;
  };
  for (const auto& [key, item] : then) {
    PathErrors& path = path_of(*item);
    if (!is_judged(item->verdict.kind)) continue;
    ++path.judged_before;
    path.absent += now.contains(key) ? 0 : 1;
  }
  for (const auto& [key, item] : now) {
    const auto known = then.find(key);
    compare_case(*item, known == then.end() ? nullptr : known->second, path_of(*item), changes);
  }
  for (const auto& [name, path] : paths) {
    changes.shared += path.shared;
    if (path.absent > 0) {
      changes.gone.push_back(
          {fmt::format("{} of {} cases of {}", path.absent, path.judged_before, name),
           path.judged_after == 0 ? reason_not_run(after, *path.any) : "other cases, or other seeds"});
    }
    if (path.cases > 0) changes.errors.push_back(path.change(limits));
  }
  std::ranges::stable_sort(changes.errors, std::ranges::greater(), &ErrorChange::growth);
  std::ranges::stable_partition(changes.failures, &FailureChange::is_new);
}

}  // namespace assay
