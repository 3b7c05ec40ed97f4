// SPDX-License-Identifier: Apache-2.0
// The judge turns a case into a verdict. It keeps nothing between cases, so any process may judge
// any case. The verdict of a failure holds the tensors that were judged (evidence.h). Rules 2 to 7
// and 11 run the path (runs.h), possibly in another process (isolation.h). Rules 8 to 10 do not.
//
// These rules are checked in the order 1 2 3 4 7 6 5 8 9 10 11. The first broken one gives the
// reason.
//   1. The path serves the case, or says why not.
//   2. It runs without an error, to its end, and leaves rounding modes and the like as they were
//      (float_environment.h).
//   3. Inputs stay unchanged to the byte, with their gaps and guards. On a CPU they are not even
//      written.
//   4. Nothing outside the elements of the outputs is written: neither guards nor gaps. Nothing is
//      read beyond the fence at which a tensor begins or ends (guarded_tensor.h), used or not.
//   5. A second run, on outputs with another poison, gives the same bits. So every element was
//      written, and nothing was read that nobody wrote. A path that is not deterministic may give
//      other values, but may not leave poison.
//   6. What happened before does not show (properties/core/history.h). A deterministic path gives
//      the bits of an untuned call in a new context. A loaded choice is not tuned again.
//   7. Launches do to their buffers what they declare (properties/core/roles.h). The path lists
//      the tunables of its launches.
//   8. Every compared element is right (properties/core/compare.h).
//   9. The distances from what the recipe computes obey the rms law or the rank law (conformity.h).
//  10. The certificate: on this very case the comparison rejects each wrong answer that shows.
//      Otherwise the verdict is `uninformative`. The wrong answers are zeros (ones if the answer is
//      all zeros), the answer moved by one element, the previous call's output, the last tile
//      missing, and the faults of the oracle's formula. A wrong answer shows if some element,
//      rounded to the output dtype, differs from the computed one by more than an ulp and by more
//      than four times what sampled right paths do.
//  11. A law of the op (properties/<op>.cpp) holds on the inputs of the case: the path, run on
//      related problems, gives related bits, or numbers within a bound that the law derives. Some
//      laws draw a small problem of their own, in which nothing but one step of the op is rounded.
//      The seed chooses the law.
#pragma once

#include "kernels/core/device.h"
#include "properties/core/case.h"
#include "properties/core/compare_outputs.h"
#include "properties/core/evidence.h"
#include "properties/core/problem.h"
#include "properties/core/runs.h"
#include "properties/core/verdict.h"

namespace assay {

struct JudgeOptions {
  const TensorBytes* inputs = nullptr;  // instead of those drawn from the case
  // Also computes OutputNumerics::shares, over the compared elements that are finite. They stay
  // empty if there are none or if the oracle has no stages. Each stage takes as long as the oracle.
  bool shares = false;
  std::optional<Brief> brief = {};
};

Verdict judge(const Subject& subject, const Case& which, Device& device, const JudgeOptions& options = {});

// The same on tensors that the caller keeps, to time them next. Afterwards the inputs are intact,
// and the outputs hold no result.
Verdict judge(const Subject& subject, Problem& problem, const JudgeOptions& options = {});
// The same with the recipe that the path has said.
Verdict judge(const Subject& subject, Problem& problem, Recipe recipe, const JudgeOptions& options = {});

// The rest of the rules, after those of run_path() elsewhere. The problem holds the inputs of the
// judged call. No path runs.
Verdict judge_runs(const Subject& subject, const Problem& problem, Runs runs,
                   const JudgeOptions& options = {});

// Rules 8 to 10 alone, on outputs that somebody else computed. Outputs of zeros that are right are
// `uninformative`: no run on other memory has shown that they were written.
Verdict judge_outputs(const Subject& subject, const Problem& problem, Recipe recipe, TensorBytes outputs,
                      const JudgeOptions& options = {});

}  // namespace assay
