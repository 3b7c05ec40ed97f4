// SPDX-License-Identifier: Apache-2.0
// What happened before the judged call: nothing, or a sequence of steps in the same context and on
// the same tensors.
//
//   first_call
//   second_call
//   after:f16,n=2,l=40,c=8,dilation=64,layout=strided+retuned+graph_replay
//
// A path's result depends on its inputs, never on its history. So every state asks for the same
// result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"
#include "properties/core/layout.h"

namespace assay {

enum class StepKind : uint8_t {
  // The same call on other data. If it is the last step, the outputs still hold its results.
  kSecondCall,
  kWarm,         // the same call on the same data, with the same versions
  kForced,       // a tunable is set to one of its configurations from now on
  kRetuned,      // the same call on other data, then the tuner forgets all choices
  kCacheLoaded,  // the same, then a new context loads the choices, as from a file
  kAfter,        // a call with other dimensions, dtype or layout, which the path may refuse
  // Calls that differ from the judged one in one thing: each dimension in turn has another size
  // (one more or less, half or twice), then each other dtype is served.
  kOthersInTurn,
  kDirtyWorkspace,  // the same call on other data, then NaNs fill all working memory
  kOtherStream,     // the same call on other data on another stream
  // What may happen to weights that a path keeps something of. Their versions (Call::versions)
  // follow their values: earlier values that come back have their earlier version. The last four
  // of these seven are direct calls, never replays.
  // The same call, with other values in all inputs after the first, at the same addresses.
  kWeightsUpdated,
  kWeightUpdated,  // The same call, with other values in one input, at the same address.
  // A call on ordinary data, and one for each input after the first. Each differs from the call
  // before in the values of one input alone.
  kWeightsUpdatedInTurn,
  kWeightsReplaced,  // a call on other tensors with other values, which are then freed
  kWeightsMoved,     // a call on other tensors with equal values and versions, which are then freed
  kWeightMoved,      // the same with one other tensor; the other inputs keep their addresses
  // A call on other data. Its weights are then freed, and their memory is allocated for weights
  // again in another order: inputs of equal size change places in pairs, except the first input.
  // The same call on other data is captured into a graph. From now on the graph is replayed
  // instead.
  kWeightsReallocated,
  kGraphReplay,
  kLowThresholds,  // from now on the thresholds that paths read are low; calls are direct at first
  // The judged call is repeated on other schedules (Device::run_on_other_schedule). Where the
  // device has another stream, that stream makes the call on other data at the same time.
  kOtherSchedule,
};
std::span<const StepKind> all_steps();
std::string_view name_of(StepKind kind);  // "second_call"
bool names_input(StepKind kind);          // Step::input

struct Step {
  StepKind kind;
  // kForced
  std::string tunable{};
  std::string config{};  // as printed by Config::to_string()
  std::string input{};   // kWeightUpdated, kWeightMoved
  // kAfter
  DType dtype = DType::kF32;
  Dims dims{};
  Layout layout = Layout::kDense;

  std::string to_string() const;  // "forced:cheri_conv_norm_apply:rows=4,threads=256"
  bool operator==(const Step&) const = default;
};

struct State {
  std::vector<Step> steps;  // none: first_call

  bool has(StepKind kind) const { return std::ranges::count(steps, kind, &Step::kind) != 0; }
  bool ends_with(StepKind kind) const { return !steps.empty() && steps.back().kind == kind; }
  std::string to_string() const;
  bool operator==(const State&) const = default;
};

// Throws Error (usage) that names the word.
State parse_state(std::string_view text);

}  // namespace assay
