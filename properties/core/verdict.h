// SPDX-License-Identifier: Apache-2.0
// What the judge says about a case, and why.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/compare.h"

namespace assay {

enum class VerdictKind : uint8_t {
  kPass,           // every check held, and each could have failed
  kFail,           // the path is wrong
  kMistrusted,     // as kUninformative, in every case so far
  kUninformative,  // the path agrees, but on this data so would a plausible wrong answer
  kUnsupported,    // the path does not serve this problem and says so
  kCrashed,        // the path threw, the device reported a fault, or the path's process ended
  kTimeout,        // the path did not come to its end in time; only in a process of its own
  kSkipped,        // not judged for a reason outside the path: no memory, nothing to compare
};

std::string_view name_of(VerdictKind kind);
bool is_failure(VerdictKind kind);  // the path or its judging is at fault

// What one stage of the op adds to the error of an output if all other stages are exact, averaged
// over its finite elements.
struct Share {
  std::string stage;
  double bound;  // mean of the radii
  double rms;    // of the error of a sampled path that rounds in this stage alone
};

// [bytes] What a path says may be of any length. A longer reason is kept without its middle.
inline constexpr size_t kLongestReason = 4096;

struct OutputNumerics {
  std::string name;
  Comparison comparison;
  std::optional<Conformity> conformity = {};  // absent for few elements
  bool obeys_rms_law = false;                 // whether the law applies to this data
  int64_t elements = 0;                       // compared or not
  std::vector<Share> shares = {};             // if asked for: JudgeOptions::shares
};

struct Evidence;

struct Verdict {
  VerdictKind kind = VerdictKind::kPass;
  std::string reason;  // one sentence with values; for a pass, what was compared
  std::vector<OutputNumerics> outputs;
  std::string recipe = {};  // of the path, in words; empty if its outputs were not looked at
  // Whether a failure came again when the case was judged alone in a new process. Absent if nobody
  // tried, as in the process of the program.
  std::optional<bool> fails_alone = {};
  std::shared_ptr<const Evidence> evidence = {};  // of a failure

  void set_fails_alone(bool alone);  // and says so at the end of the reason
};

}  // namespace assay
