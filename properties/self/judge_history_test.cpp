// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// Rules 6 and 7 of the judge: what happened before a call, and what launches declare. Each is shown
// red on a path with exactly that fault.
#include <chrono>
#include <cmath>
#include <cstring>

#include "properties/self/spoiled.h"

namespace assay {
namespace {

using dynamic_conv::kK;
using dynamic_conv::kOut;
using dynamic_conv::kW;
using test::expect;
using test::input;
using test::judge_path;
using test::output;
using test::small_case;
using test::spoiled;
using testing::AllOf;
using testing::HasSubstr;

// dynamic_conv with a context. Each thing that a path may keep between calls is used wrongly once.
Case in_state(std::string_view state) {
  Case which = small_case();
  which.state = parse_state(state);
  return which;
}

const Tunable& halves() {
  static const Tunable tunable{
      .name = "test_halves", .version = 1, .configs = {{{"skip", 0}}, {{"skip", 1}}}};
  return tunable;
}

// The production path, with its output passed through a tuned launch in which `finish` changes it.
Path tuned(std::vector<Buffer> (*buffers)(const Call&), std::function<void(const Config&, float*)> finish) {
  Path path = spoiled([=](const Call& call) {
    call.context->tuner().run({.tunable = &halves(),
                               .key = tuning_key(call),
                               .unfit = {},
                               .buffers = buffers(call),
                               .run = [&](const Config& config, std::span<void* const> data) {
                                 finish(config, static_cast<float*>(data[0]));
                               }});
  });
  path.tunables = {&halves()};
  return path;
}

std::vector<Buffer> updated_output(const Call& call) {
  return {buffer_of("out", Role::kUpdate, call.outputs[kOut])};
}

TEST(JudgeHistory, RightPathsPassInEveryState) {
  const Path path = tuned(updated_output, [](const Config&, float* out) { *out *= 1; });
  for (std::string_view state : {"first_call",
                                 "second_call",
                                 "warm",
                                 "retuned",
                                 "cache_loaded",
                                 "dirty_workspace",
                                 "weights_updated",
                                 "weight_updated:k",
                                 "weight_updated:x",
                                 "weights_replaced",
                                 "weights_moved",
                                 "weight_moved:k",
                                 "weights_reallocated",
                                 "weights_updated_in_turn",
                                 "others_in_turn",
                                 "after:f32,b=2,t=9,d=5,w=8,layout=strided",
                                 "after:bf16,b=1,t=3,d=2,w=1",
                                 "forced:test_halves:skip=0",
                                 "forced:test_halves:skip=1",
                                 "warm+retuned+after:f32,b=2,t=9,d=5,w=7+cache_loaded+second_call"}) {
    expect(judge_path(path, in_state(state)), VerdictKind::kPass, HasSubstr("90"));
  }
}

TEST(JudgeHistory, StatesThatDoNotApplyAreSkipped) {
  const Path plain = spoiled([](const Call&) {});
  expect(judge_path(plain, in_state("retuned")), VerdictKind::kSkipped, HasSubstr("no configurations"));
  expect(judge_path(plain, in_state("graph_replay")), VerdictKind::kSkipped, HasSubstr("no graphs"));
  expect(judge_path(plain, in_state("after:f64,b=1,t=3,d=2,w=1")), VerdictKind::kSkipped, HasSubstr("f64"));
}

// An unknown word is an error even if the path would refuse the case anyway.
TEST(JudgeHistory, StatesThatNameWhatThereIsNotAreErrors) {
  const Path plain = spoiled([](const Call&) {});
  const Path path = tuned(updated_output, [](const Config&, float*) {});
  const auto error = [](const Path& judged, std::string_view state) {
    return test::error_of([&] { judge_path(judged, in_state(state)); });
  };
  EXPECT_THAT(error(plain, "forced:test_halves:skip=0"),
              AllOf(HasSubstr("forced:test_halves:skip=0"), HasSubstr("no configurations")));
  EXPECT_THAT(error(path, "warm+forced:halves:skip=0"),
              AllOf(HasSubstr("'halves'"), HasSubstr("test_halves")));
  EXPECT_THAT(error(path, "forced:test_halves:skip=2"),
              AllOf(HasSubstr("'skip=2'"), HasSubstr("skip=0, skip=1")));
  EXPECT_THAT(error(plain, "weight_updated:k2"), AllOf(HasSubstr("'k2'"), HasSubstr("x, k")));
  Path refusing = spoiled([](const Call&) {});
  refusing.unsupported = [](const Dims&, DType) { return std::string("nothing is served"); };
  EXPECT_THAT(error(refusing, "weight_updated:k2"), HasSubstr("'k2'"));
  EXPECT_THAT(error(refusing, "after:f32,b=1"), HasSubstr("'t' is missing"));
}

TEST(JudgeHistory, ConfigurationsThatGiveOtherBitsFail) {
  const Path path = tuned(updated_output, [](const Config& config, float* out) {
    if (config["skip"] == 1) *out = std::nextafter(*out, 2.0f);
  });
  expect(judge_path(path, in_state("forced:test_halves:skip=1")), VerdictKind::kFail,
         AllOf(HasSubstr("out[0, 0, 0]"), HasSubstr("in a new context")));
}

// The tuner never chooses the slow one. The seed decides whether the result is compared with it.
TEST(JudgeHistory, ConfigurationsThatAreNotChosenGiveTheSameBits) {
  const Path path = tuned(updated_output, [](const Config& config, float* out) {
    if (config["skip"] == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    *out = std::nextafter(*out, 2.0f);
  });
  constexpr int kSeeds = 16;
  int failing = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Case which = in_state("first_call");
    which.seed = static_cast<uint64_t>(seed);
    failing += is_failure(judge_path(path, which).kind);
  }
  EXPECT_GE(failing, kSeeds / 4);
  EXPECT_LT(failing, kSeeds);
}

TEST(JudgeHistory, AForcedConfigurationThatDoesNotFitIsNotJudged) {
  Path path = spoiled([](const Call& call) {
    const auto unfit = [](const Config& config) -> std::optional<std::string> {
      if (config["skip"] == 1) return "there is nothing to skip";
      return std::nullopt;
    };
    call.context->tuner().run({.tunable = &halves(),
                               .key = tuning_key(call),
                               .unfit = unfit,
                               .buffers = updated_output(call),
                               .run = [](const Config&, std::span<void* const>) {}});
  });
  path.tunables = {&halves()};
  for (std::string_view state : {"first_call", "retuned", "forced:test_halves:skip=0"})
    expect(judge_path(path, in_state(state)), VerdictKind::kPass, HasSubstr("90"));
  expect(judge_path(path, in_state("forced:test_halves:skip=1+second_call")), VerdictKind::kUnsupported,
         HasSubstr("test_halves cannot run with skip=1: there is nothing to skip"));
}

TEST(JudgeHistory, WhatACallThatWasRefusedLeavesMustNotShow) {
  int refused = 0;
  Path path = spoiled([&](const Call& call) {
    if (refused > 0) *output(call) += 1;
  });
  const auto why_not = [](const Dims& dims, DType) {
    return dims[kW] == 7 ? std::optional<std::string>("w=7") : std::nullopt;
  };
  path.unsupported = why_not;
  path.run = [&refused, why_not, right = path.run](const Call& call) {
    if (const auto why = why_not(call.dims, call.dtype)) {
      ++refused;
      throw unsupported_error("{}", *why);
    }
    right(call);
  };
  expect(judge_path(path, in_state("after:f32,b=2,t=9,d=5,w=6")), VerdictKind::kPass, testing::_);
  expect(judge_path(path, in_state("after:f32,b=2,t=9,d=5,w=7")), VerdictKind::kFail, testing::_);
  EXPECT_EQ(refused, 1);
}

// What a path does beyond a threshold is judged on a small problem, from the step on.
TEST(JudgeHistory, LowThresholdsReachWhatLargeProblemsDo) {
  constexpr Threshold kLength{1 << 20, 4};
  int beyond = 0;
  const Path path = spoiled([&](const Call& call) {
    if (call.dims[dynamic_conv::kT] < kLength.value()) return;
    ++beyond;
    *output(call) += 1;
  });
  expect(judge_path(path, in_state("warm")), VerdictKind::kPass, testing::_);
  EXPECT_EQ(beyond, 0);
  expect(judge_path(path, in_state("warm+low_thresholds")), VerdictKind::kFail, HasSubstr("1 of"));
  EXPECT_EQ(beyond, 3);  // both judged runs, and the untuned call
  expect(judge_path(path, in_state("low_thresholds+warm")), VerdictKind::kFail, HasSubstr("1 of"));
  EXPECT_EQ(kLength.value(), 1 << 20);
}

// A path may add up in another order then.
TEST(JudgeHistory, LowThresholdsAreThoseOfTheCallToCompareWith) {
  constexpr Threshold kLength{1 << 20, 4};
  const Path path = spoiled([&](const Call& call) {
    if (call.dims[dynamic_conv::kT] >= kLength.value()) *output(call) = std::nextafter(*output(call), 0.0f);
  });
  const Oracle oracle = test::loose_oracle(2);
  for (std::string_view state :
       {"low_thresholds", "warm+low_thresholds", "low_thresholds+warm", "warm+low_thresholds+warm"})
    expect(judge_path(path, in_state(state), &oracle), VerdictKind::kPass, testing::_);
}

TEST(JudgeHistory, WhatTheWorkspaceHeldMustNotShow) {
  const Path path = spoiled([](const Call& call) {
    const Workspace::Lease lease = call.context->workspace().lease(4, call.stream);
    if (std::isnan(*lease.as<float>())) *output(call) += 1;
  });
  expect(judge_path(path, in_state("second_call")), VerdictKind::kPass, testing::_);
  expect(judge_path(path, in_state("dirty_workspace")), VerdictKind::kFail, HasSubstr("in a new context"));
}

// A plan is kept under a key that lacks one thing.
TEST(JudgeHistory, KeysThatLackOneThingFailInTurn) {
  for (const DimInfo& lacking : registry().op("dynamic_conv").dims) {
    const Path path = spoiled([&](const Call& call) {
      std::string key = "plan";
      for (const auto& [dim, size] : call.dims.values()) {
        if (dim != lacking.key) key += fmt::format(" {}={}", dim, size);
      }
      const int64_t size = call.dims.at(lacking.key);
      const auto kept = call.context->derived().get(key, 8, {{1, nullptr}}, call.stream,
                                                    [&](void* data) { std::memcpy(data, &size, 8); });
      if (std::memcmp(kept.data(), &size, 8) != 0) *output(call) += 1;
    });
    expect(judge_path(path, in_state("warm")), VerdictKind::kPass, testing::_);
    expect(judge_path(path, in_state("warm+others_in_turn")), VerdictKind::kFail,
           AllOf(HasSubstr("step 2"), HasSubstr("the call is after:")));
  }
}

TEST(JudgeHistory, StaleDerivedTensorsFail) {
  // The first weight is kept by address; its version would tell that it has changed.
  const Path path = spoiled([](const Call& call) {
    const auto kept = call.context->derived().get(
        "weight", 4, {{reinterpret_cast<uintptr_t>(call.inputs[kK].data), nullptr}}, call.stream,
        [&](void* data) { *static_cast<float*>(data) = *input(call, kK); });
    if (*static_cast<float*>(kept.data()) != *input(call, kK)) *output(call) += 1;
  });
  expect(judge_path(path), VerdictKind::kPass, testing::_);
  expect(judge_path(path, in_state("weights_updated")), VerdictKind::kFail, HasSubstr("in a new context"));
}

TEST(JudgeHistory, WrongStepsAreNamed) {
  int calls = 0;
  const Path path = spoiled([&](const Call& call) {
    if (++calls == 2) *output(call) += 1;
  });
  expect(judge_path(path, in_state("warm+warm+second_call")), VerdictKind::kFail,
         AllOf(HasSubstr("step 2"), HasSubstr("out[0, 0, 0]")));
}

TEST(JudgeRoles, WrongRolesFail) {
  const auto with_role = [](std::vector<Buffer> (*buffers)(const Call&)) {
    return judge_path(tuned(buffers, [](const Config&, float* out) { *out += 1; }));
  };
  expect(with_role([](const Call& call) -> std::vector<Buffer> {
           return {buffer_of("out", Role::kWrite, call.outputs[kOut])};
         }),
         VerdictKind::kFail,
         AllOf(HasSubstr("test_halves"), HasSubstr("declares out write"), HasSubstr("a second run")));
  expect(with_role([](const Call& call) -> std::vector<Buffer> {
           return {buffer_of("out", Role::kRead, call.outputs[kOut])};
         }),
         VerdictKind::kFail, HasSubstr("declares out read, but writes it"));
}

// Otherwise neither its states nor its roles would be checked.
TEST(JudgeRoles, TunedPathsListWhatTheyChooseAmong) {
  Path path = tuned(updated_output, [](const Config&, float* out) { *out *= 1; });
  path.tunables = {};
  expect(judge_path(path), VerdictKind::kFail, HasSubstr("lists none"));
}

}  // namespace
}  // namespace assay
