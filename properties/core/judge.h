// SPDX-License-Identifier: Apache-2.0
// The judge: a case in, a verdict out. It keeps nothing between cases, so any process may judge any case.
//
// The first that is broken gives the reason: in this order, but that 7, which says most, is asked before 6 and 5.
//   1. the path serves the case, or says why not
//   2. it runs without an error
//   3. inputs are unchanged, to the byte, with their gaps and guards
//   4. nothing outside the outputs' elements is written: guards on both sides, gaps of strided rows
//   5. a second run on outputs with another poison gives the same bits (every path), so every element was written and
//      nothing was read that nobody wrote; a path that is not deterministic may differ, but not leave the poison
//   6. what happened before does not show (properties/core/history.h): the bits are those of an untuned call in a new
//      context, unless the path is not deterministic; a loaded choice is used and not tuned again
//   7. launches do to their buffers what they declare (properties/core/roles.h); the path lists what they choose among
//   8. every compared element is right (oracles/core/compare.h)
//   9. the rms of the error is what the recipe predicts (the rms law)
//  10. the certificate: the comparison would have rejected, on this very case, each wrong answer that the output dtype
//      can show: zeros (ones where the answer is zero), the answer moved by one element, the previous call's output, the
//      last tile missing, and the oracle's counterfeits; otherwise the verdict is `mistrusted`. A wrong answer is shown
//      by the output dtype if, rounded to it, it is more than one ulp and more than the oracle's noise (Expected::noise)
//      and half an ulp for storing away from the right one somewhere.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/core/device.h"
#include "properties/core/case.h"
#include "properties/core/history.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"

namespace assay {

// Outputs with more than kCompareAll elements are compared on a sample: index lines (of at most about 4096
// elements, evenly spaced) along each axis with the other indices at the edges of the tensor's box, one step
// inside and one tile inside, and kRandomSample random elements, or random rows with as many (Oracle::shares_rows). The
// sample follows from the shape and the seed.
inline constexpr int64_t kCompareAll = int64_t{4} << 20;
inline constexpr int64_t kRandomSample = int64_t{1} << 20;
inline constexpr int64_t kTileEdge = 64;

struct JudgeOptions {
  const TensorBytes* inputs = nullptr;  // in place of those drawn from the case
  // Also what each stage of the op adds to the bound of each output, over the compared elements that are finite; nothing
  // where there is none, or where the oracle does not divide its bound. Takes as long as the oracle for each stage.
  bool shares = false;
};

Verdict judge(const Subject& subject, const Case& which, Device& device, const JudgeOptions& options = {});

// The same on tensors that the caller keeps, to time them next. Afterwards the inputs are intact, and the outputs hold no
// result.
Verdict judge(const Subject& subject, Problem& problem, const JudgeOptions& options = {});

// The row-major positions that are compared, ascending.
std::vector<int64_t> compared_elements(const Extents& shape, uint64_t seed, bool whole_rows = false);

}  // namespace assay
