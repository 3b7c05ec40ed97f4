// SPDX-License-Identifier: Apache-2.0
#include "properties/core/precheck.h"

#include <algorithm>

#include "properties/core/generate.h"
#include "properties/core/history.h"

namespace assay {
namespace {

Verdict refusal(VerdictKind kind, std::string reason) {
  return {.kind = kind, .reason = std::move(reason), .outputs = {}};
}

}  // namespace

std::optional<Verdict> precheck(const Subject& subject, const Case& which) {
  require_dims(*subject.op, which.dims);
  const Path& path = *subject.path;
  require_state(which.state, *subject.op, path);
  if (std::ranges::count(path.dtypes, which.dtype) == 0) {
    return refusal(VerdictKind::kUnsupported, fmt::format("dtype={}", name_of(which.dtype)));
  }
  if (path.unsupported) {
    if (auto why = path.unsupported(which.dims, which.dtype)) {
      return refusal(VerdictKind::kUnsupported, std::move(*why));
    }
  }
  if (!is_legal(which.layout, *subject.op, which.dims)) {
    return refusal(VerdictKind::kSkipped,
                   fmt::format("layout={} does not apply to these dimensions", name_of(which.layout)));
  }
  if (auto why = inapplicable(which.state, path)) return refusal(VerdictKind::kSkipped, std::move(*why));
  return std::nullopt;
}

}  // namespace assay
