// SPDX-License-Identifier: Apache-2.0
#include "properties/core/state.h"

#include <fmt/ranges.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"
#include "properties/core/text.h"

namespace assay {
namespace {

using enum StepKind;

constexpr std::array kSteps{kSecondCall,      kWarm,           kForced,        kRetuned,
                            kCacheLoaded,     kAfter,          kOthersInTurn,  kDirtyWorkspace,
                            kOtherStream,     kWeightsUpdated, kWeightUpdated, kWeightsUpdatedInTurn,
                            kWeightsReplaced, kWeightsMoved,   kWeightMoved,   kWeightsReallocated,
                            kGraphReplay,     kLowThresholds,  kOtherSchedule};
constexpr std::string_view kFirstCall = "first_call";

// forced:<tunable>:<config>
void parse_forced(std::string_view argument, Step& step) {
  const size_t colon = argument.find(':');
  if (colon == std::string_view::npos) {
    throw usage_error("'forced:{}' is not of the form forced:<tunable>:<config>", excerpt(argument));
  }
  step.tunable = argument.substr(0, colon);
  step.config = argument.substr(colon + 1);
}

// after:<dtype>,<dimension>=<size>,...,layout=<layout>
void parse_after(std::string_view argument, Step& step) {
  const std::vector<std::string_view> parts = split(argument, ',');
  step.dtype = parse_dtype(parts[0]);
  for (std::string_view part : std::span(parts).subspan(1)) {
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      throw usage_error("'{}' in 'after:{}' is not of the form dimension=size", excerpt(part),
                        excerpt(argument));
    }
    const std::string_view key = part.substr(0, equals);
    if (key == "layout") {
      step.layout = parse_name(key, part.substr(equals + 1), all_layouts());
      continue;
    }
    if (step.dims.contains(key))
      throw usage_error("'{}' stands twice in 'after:{}'", excerpt(key), excerpt(argument));
    step.dims.set(std::string(key), parse_integer<int64_t>(key, part.substr(equals + 1)));
  }
}

StepKind parse_kind(std::string_view name) {
  for (StepKind kind : kSteps) {
    if (name == name_of(kind)) return kind;
  }
  std::vector<std::string> names{std::string(kFirstCall)};
  for (StepKind kind : kSteps) names.emplace_back(name_of(kind));
  throw usage_error("state={} is not one of {}{}", excerpt(name), fmt::join(names, ", "),
                    did_you_mean(name, names));
}

Step parse_step(std::string_view word) {
  if (word == kFirstCall)
    throw usage_error("state: first_call means that nothing happened before; it stands alone");
  const size_t colon = word.find(':');
  const bool has_colon = colon != std::string_view::npos;
  Step step{.kind = parse_kind(word.substr(0, colon))};
  const std::string_view argument = has_colon ? word.substr(colon + 1) : "";
  const bool takes_argument = step.kind == kForced || step.kind == kAfter || names_input(step.kind);
  if (takes_argument ? argument.empty() : has_colon) {
    throw usage_error("state={}: {} takes {} argument", excerpt(word), name_of(step.kind),
                      takes_argument ? "an" : "no");
  }
  if (step.kind == kForced) parse_forced(argument, step);
  if (step.kind == kAfter) parse_after(argument, step);
  if (names_input(step.kind)) step.input = argument;
  return step;
}

}  // namespace

bool names_input(StepKind kind) {
  return kind == kWeightUpdated || kind == kWeightMoved;
}

std::span<const StepKind> all_steps() {
  return kSteps;
}

std::string_view name_of(StepKind kind) {
  switch (kind) {
    case kSecondCall:
      return "second_call";
    case kWarm:
      return "warm";
    case kForced:
      return "forced";
    case kRetuned:
      return "retuned";
    case kCacheLoaded:
      return "cache_loaded";
    case kAfter:
      return "after";
    case kOthersInTurn:
      return "others_in_turn";
    case kDirtyWorkspace:
      return "dirty_workspace";
    case kOtherStream:
      return "other_stream";
    case kWeightsUpdated:
      return "weights_updated";
    case kWeightUpdated:
      return "weight_updated";
    case kWeightsUpdatedInTurn:
      return "weights_updated_in_turn";
    case kWeightsReplaced:
      return "weights_replaced";
    case kWeightsMoved:
      return "weights_moved";
    case kWeightMoved:
      return "weight_moved";
    case kWeightsReallocated:
      return "weights_reallocated";
    case kGraphReplay:
      return "graph_replay";
    case kLowThresholds:
      return "low_thresholds";
    case kOtherSchedule:
      return "other_schedule";
  }
  throw Error("StepKind({}) is not a kind of step", static_cast<int>(kind));
}

std::string Step::to_string() const {
  std::string text(name_of(kind));
  if (kind == kForced) text += fmt::format(":{}:{}", tunable, config);
  if (names_input(kind)) text += fmt::format(":{}", input);
  if (kind == kAfter) {
    text += fmt::format(":{}", name_of(dtype));
    for (const auto& [key, size] : dims.values()) text += fmt::format(",{}={}", key, size);
    if (layout != Layout::kDense) text += fmt::format(",layout={}", name_of(layout));
  }
  return text;
}

std::string State::to_string() const {
  if (steps.empty()) return std::string(kFirstCall);
  std::vector<std::string> words;
  for (const Step& step : steps) words.push_back(step.to_string());
  return fmt::format("{}", fmt::join(words, "+"));
}

State parse_state(std::string_view text) {
  State state;
  if (text == kFirstCall) return state;
  for (std::string_view word : split(text, '+')) state.steps.push_back(parse_step(word));
  return state;
}

}  // namespace assay
