// SPDX-License-Identifier: Apache-2.0
// The rules of the judge on outputs alone (8 to 10 in judge.h): every element, the rms law, the
// certificate.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "properties/core/problem.h"
#include "properties/core/verdict.h"

namespace assay {

// Outputs of more than kCompareAll elements are compared on a sample. It has index lines along each
// axis, of at most about 4096 evenly spaced elements. Their other indices lie at the edges of the
// tensor's box, one step inside and one tile inside. It also has kRandomSample random elements, or
// random rows of as many (Oracle::shares_rows). A brief sample, of outputs of more than
// kBriefSample elements, has as many random ones, the first and the last. The sample depends on the
// shape and the seed only: that of the case, or of a brief sample its own, which no path knows.
inline constexpr int64_t kCompareAll = int64_t{4} << 20;
inline constexpr int64_t kRandomSample = int64_t{1} << 20;
inline constexpr int64_t kBriefSample = int64_t{1} << 11;
inline constexpr int64_t kTileEdge = 64;

struct Outputs {
  const TensorBytes& got;
  const TensorBytes& previous;  // what they held before the call; empty if that was poison
  const Recipe& recipe;
  std::optional<uint64_t> brief = {};  // the seed of a brief sample; then there is no certificate
};

// Compares outputs with what the oracle expects for the inputs that the problem holds. `shares` is
// JudgeOptions::shares.
Verdict compare_outputs(const Subject& subject, const Problem& problem, const Outputs& outputs, bool shares);

// The row-major positions that are compared, ascending.
std::vector<int64_t> compared_elements(const Extents& shape, uint64_t seed, bool whole_rows = false,
                                       bool is_brief = false);

}  // namespace assay
