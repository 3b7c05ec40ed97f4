// SPDX-License-Identifier: Apache-2.0
// What happened before the judged call: nothing, or a sequence of steps in one context and on the same tensors.
//
//   first_call
//   second_call
//   after:f16,n=2,l=40,c=8,dilation=64+retuned+graph_replay
//
// A path's result depends on its inputs, never on its history: every state asks for the same result.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/op.h"

namespace assay {

enum class StepKind : uint8_t {
  kSecondCall,      // the same call on other data; if it is the last step, the outputs still hold its results
  kWarm,            // the same call on the same data, with the same versions
  kForced,          // a tunable is set to one of its configurations, for all that follows
  kRetuned,         // the same call on other data, then all choices of the tuner are forgotten
  kCacheLoaded,     // the same, then the choices go through a file into a new context
  kAfter,           // a call of the path with other dimensions or another dtype, which it may refuse
  kDirtyWorkspace,  // the same call on other data, then all working memory is filled with NaNs
  kOtherStream,     // the same call on other data on another stream
  // What may happen to weights, of which a path may keep something. Their versions (Call::versions) follow their values:
  // values that come back have the version that they had before. The last three are direct calls, no replays.
  kWeightsUpdated,  // the same call, in which all inputs but the first had other values, at the same addresses
  kWeightUpdated,   // the same call, in which one input alone had other values, at the same address
  kWeightsReplaced,  // a call on other tensors, at other addresses and with other values, which are then freed
  kWeightsMoved,     // a call on other tensors with the same values and versions, which are then freed
  // a call on other data whose weights are then freed, and their memory allocated for weights again, in another order:
  // where two inputs but the first have one size, they change places
  kWeightsReallocated,
  kGraphReplay,  // the same call on other data is captured into a graph; from now on the graph is replayed instead
};
std::span<const StepKind> all_steps();
std::string_view name_of(StepKind kind);  // "second_call"

struct Step {
  StepKind kind;
  // kForced
  std::string tunable{};
  std::string config{};  // as Config::to_string() prints it
  std::string input{};   // kWeightUpdated
  // kAfter
  DType dtype = DType::kF32;
  Dims dims{};

  std::string to_string() const;  // "forced:cheri_conv_norm_apply:rows=4,threads=256"
  bool operator==(const Step&) const = default;
};

struct State {
  std::vector<Step> steps;  // none: first_call

  bool ends_with(StepKind kind) const { return !steps.empty() && steps.back().kind == kind; }
  std::string to_string() const;
  bool operator==(const State&) const = default;
};

// Throws Error (usage) that names the word.
State parse_state(std::string_view text);

}  // namespace assay
