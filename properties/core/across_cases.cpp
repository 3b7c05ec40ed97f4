// SPDX-License-Identifier: Apache-2.0
#include "properties/core/across_cases.h"

#include <fmt/format.h>

#include <tuple>

#include "properties/core/conformity.h"

namespace assay {

void AcrossCases::judge(const Case& which, Verdict& verdict) {
  count_in_vain(verdict);
  if (!is_told_ && verdict.kind == VerdictKind::kPass) count_ranks(which, verdict);
}

void AcrossCases::count_in_vain(Verdict& verdict) {
  if (verdict.kind == VerdictKind::kUninformative || verdict.kind == VerdictKind::kMistrusted) ++in_vain_;
  if (verdict.kind == VerdictKind::kPass || verdict.kind == VerdictKind::kFail) is_earned_ = true;
  if (is_earned_ || in_vain_ != kMostInVain) return;
  verdict.kind = VerdictKind::kMistrusted;
  verdict.reason += fmt::format("; none of the {} judged cases so far could tell", kMostInVain);
}

void AcrossCases::count_ranks(const Case& which, Verdict& verdict) {
  if (!spreads_errors(which)) return;
  ranked_.resize(verdict.outputs.size());
  for (size_t i = 0; i < ranked_.size(); ++i) {
    const auto& [name, conformity] = std::tie(verdict.outputs[i].name, verdict.outputs[i].conformity);
    if (!conformity || (conformity->rms == 0 && conformity->predicted == 0)) continue;
    auto& [cases, farthest] = ranked_[i];
    ++cases;
    if (conformity->rms > conformity->predicted) ++farthest;
    if (farthest <= most_farthest(cases)) continue;
    is_told_ = true;
    verdict.kind = VerdictKind::kFail;
    verdict.reason = fmt::format(
        "{} is farther from what the recipe computes than each of {} right paths in {} of {} cases; a right "
        "path is in at most {}",
        name, kSamples, farthest, cases, most_farthest(cases));
    verdict.set_fails_alone(false);
    return;
  }
}

}  // namespace assay
