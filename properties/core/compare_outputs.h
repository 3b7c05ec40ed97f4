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
// random rows of as many (Oracle::shares_rows). The sample depends on the shape and the seed of the
// case only.
//
// A brief comparison has no certificate. Its sample, of outputs of more than kBriefSample elements,
// has as many: random ones, or rows, of random blocks (Oracle::block_axes). These are as many as it
// takes, at least kBriefBlocks: an oracle may compute a whole block for one of its elements. A path
// that is wrong all over a share f of the blocks passes with a probability of at most
// (1 - f)^kBriefBlocks; one that is wrong in a share g of each block, with (1 - g)^kBriefSample.
inline constexpr int64_t kCompareAll = int64_t{4} << 20;
inline constexpr int64_t kRandomSample = int64_t{1} << 20;
inline constexpr int64_t kBriefSample = int64_t{1} << 11;
inline constexpr int64_t kBriefBlocks = 4;
inline constexpr int64_t kTileEdge = 64;

struct Brief {
  uint64_t seed;  // of the sample: not that of the case
  // Of outputs that are one block an oracle computes all, and once more for each right path that
  // the rms law samples.
  enum class Totals : uint8_t { kLeftOut, kWithinBounds, kJudged } totals = Totals::kJudged;
};

struct Outputs {
  const TensorBytes& got;       // all elements, or those that are compared, in their order
  const TensorBytes& previous;  // what they held before the call; empty if that was poison
  const Recipe& recipe;
  std::optional<Brief> brief = {};
};

// Compares outputs with what the oracle expects for the inputs that the problem holds. `shares` is
// JudgeOptions::shares.
Verdict compare_outputs(const Subject& subject, const Problem& problem, const Outputs& outputs, bool shares);

// The row-major positions that are compared, ascending.
std::vector<int64_t> compared_elements(const Extents& shape, uint64_t seed, bool whole_rows = false);
std::vector<int64_t> brief_sample(const Extents& shape, uint64_t seed, int block_axes, bool whole_rows);
std::vector<int64_t> brief_sample(const Subject& subject, const Case& which, size_t output, uint64_t seed);

}  // namespace assay
