// SPDX-License-Identifier: Apache-2.0
#include "properties/core/verdict.h"

#include "kernels/core/error.h"

namespace assay {

std::string_view name_of(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass:
      return "pass";
    case VerdictKind::kFail:
      return "fail";
    case VerdictKind::kMistrusted:
      return "mistrusted";
    case VerdictKind::kUninformative:
      return "uninformative";
    case VerdictKind::kUnsupported:
      return "unsupported";
    case VerdictKind::kCrashed:
      return "crashed";
    case VerdictKind::kTimeout:
      return "timeout";
    case VerdictKind::kSkipped:
      return "skipped";
  }
  throw Error("VerdictKind({}) is not a verdict", static_cast<int>(kind));
}

void Verdict::set_fails_alone(bool alone) {
  fails_alone = alone;
  reason += alone ? "; it fails alone in a fresh process" : "; it needs what ran before";
}

bool is_failure(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kPass:
    case VerdictKind::kUninformative:
    case VerdictKind::kUnsupported:
    case VerdictKind::kSkipped:
      return false;
    case VerdictKind::kFail:
    case VerdictKind::kMistrusted:
    case VerdictKind::kCrashed:
    case VerdictKind::kTimeout:
      return true;
  }
  throw Error("VerdictKind({}) is not a verdict", static_cast<int>(kind));
}

}  // namespace assay
