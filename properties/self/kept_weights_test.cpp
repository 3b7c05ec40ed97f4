// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// What paths keep of weights is used again if nothing has changed. Every wrong way to keep weights
// is seen by some state.
#include <algorithm>
#include <map>

#include "kernels/cheri/cheri.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

using dynamic_conv::kK;
using test::cpu;
using test::expect;
using test::input;
using test::judge_path;
using test::output;
using test::small_case;
using test::spoiled;
using testing::HasSubstr;

// Versions follow values. So what a path keeps is used again when its weights come back.
TEST(KeptWeights, AreUsedAgain) {
  const Context* watched = nullptr;
  int made = 0;
  const Path path = spoiled([&](const Call& call) {
    ASSERT_EQ(call.versions.size(), 2u) << "another seed is needed: every fourth has no versions";
    const DerivedTensors::Source k{call.versions[kK], call.inputs[kK].data};
    const auto kept = call.context->derived().get("k", 4, {k}, call.stream, [&](void* data) {
      if (call.context == watched) ++made;
      *static_cast<float*>(data) = *input(call, kK);
    });
    if (*static_cast<float*>(kept.data()) != *input(call, kK)) *output(call) += 1;
  });
  const std::map<std::string_view, int> expected{{"first_call", 1},       {"warm", 1},
                                                 {"warm+warm", 1},        {"weight_updated:x", 1},
                                                 {"weights_moved", 1},    {"weight_updated:k", 2},
                                                 {"weights_updated", 2},  {"weights_updated_in_turn", 3},
                                                 {"weights_replaced", 2}, {"weights_reallocated", 2},
                                                 {"second_call", 2},      {"warm+weights_updated+warm", 3}};
  for (const auto& [state, times] : expected) {
    Case which = small_case();
    which.state = parse_state(state);
    Problem problem(registry().op(which.op), path, which, cpu());
    watched = problem.context().get();
    made = 0;
    const Verdict verdict = judge({&registry().op(which.op), &path, &registry().oracle(which.op)}, problem);
    expect(verdict, VerdictKind::kPass, testing::_);
    EXPECT_EQ(made, times) << state;
  }
}

// That the production path keeps weights shows if a caller breaks the promise of equal versions.
TEST(KeptWeights, AreUsedByTheCheriBlock) {
  const Op& op = registry().op("cheri_block");
  Problem problem(op, op.path("cpu"),
                  parse_case("cheri_block/cpu/f32/n=1/l=9/c=4/dilation=2/hidden=16/seed=3"), cpu());
  problem.draw_inputs(1);
  Call call = problem.call();
  ASSERT_EQ(call.versions.size(), 4u) << "another seed is needed: every fourth has no versions";
  const auto outputs = [&] {
    op.path("cpu").run(call);
    return problem.outputs();
  };
  const TensorBytes before = outputs();
  for (Input weight : {cheri::kW1, cheri::kW2}) {
    *const_cast<float*>(call.inputs[weight].as<float>()) += 1;
    EXPECT_EQ(outputs(), before) << "made again for an old version";
    call.versions[weight] = new_version();
    EXPECT_NE(outputs(), before) << "not made again for a new version";
    *const_cast<float*>(call.inputs[weight].as<float>()) -= 1;
    call.versions = problem.call().versions;
    problem.draw_inputs(1);
  }
}

// In some cases the versions of some inputs are known and those of others are not.
TEST(KeptWeights, UnknownVersionsAreNotKept) {
  int shown = 0;
  for (uint64_t seed = 0; seed < 32; ++seed) {
    Case which = parse_case("cheri_block/cpu/f32/n=2/l=9/c=4/dilation=2/hidden=16");
    which.state = parse_state("weights_updated");
    which.seed = seed;
    const Op& op = registry().op(which.op);
    Problem problem(op, op.path("cpu"), which, cpu());
    problem.draw_inputs(seed);
    const std::vector<uint64_t> versions = problem.call().versions;
    const bool is_mixed =
        std::ranges::count(versions, uint64_t{0}) % std::max<int64_t>(std::ssize(versions), 1) != 0;
    const bool lacks_weight = is_mixed && (versions[cheri::kW1] == 0 || versions[cheri::kW2] == 0);
    const Verdict verdict = judge_path(test::specimen("cheri_block", "unknown_version_kept").path, which);
    expect(verdict, lacks_weight ? VerdictKind::kFail : VerdictKind::kPass, testing::_);
    expect(judge_path(op.path("cpu"), which), VerdictKind::kPass, testing::_);
    shown += lacks_weight ? 1 : 0;
  }
  EXPECT_GT(shown, 0);
}

// Each wrong way to keep weights shows in its own state and in no other.
TEST(KeptWeights, EachStateShowsItsFault) {
  const auto judged = [&](std::string_view specimen, std::string_view state,
                          const Data& data = Regime::kNormal) {
    Case which = parse_case("cheri_block/cpu/f32/n=2/l=9/c=4/dilation=2/hidden=16/seed=3");
    which.state = parse_state(state);
    which.data = data;
    return judge_path(test::specimen("cheri_block", specimen).path, which);
  };
  const auto expect_shown = [&](std::string_view specimen, std::string_view state) {
    expect(judged(specimen, state), VerdictKind::kFail, HasSubstr("in a new context"));
  };
  const auto expect_hidden = [&](std::string_view specimen, std::string_view state) {
    expect(judged(specimen, state), VerdictKind::kPass, testing::_);
  };
  expect_shown("stale_weights", "weights_updated");
  expect_shown("stale_weights", "weight_updated:w1");
  expect_hidden("stale_weights", "weights_replaced");
  expect_shown("weights_by_place", "weights_reallocated");
  expect_hidden("weights_by_place", "weights_moved");
  expect_shown("weights_by_one_version", "weight_updated:w2");
  expect_shown("weights_by_one_version", "weights_updated_in_turn");
  expect_hidden("weights_by_one_version", "weights_updated");
  // Each weight matters then, whatever the data of the case are.
  expect(judged("weights_by_one_version", "weights_updated_in_turn", parse_data("normal+subnormal_weights")),
         VerdictKind::kFail, HasSubstr("step 1"));
  expect_shown("weights_by_pointer", "weights_moved");
  expect_hidden("weights_by_pointer", "weights_updated");
  expect_shown("pointer_until_w1_moves", "weight_moved:w2");
  expect_hidden("pointer_until_w1_moves", "weights_moved");
  expect_hidden("pointer_until_w1_moves", "weight_moved:w1");
  for (std::string_view specimen : {"stale_weights", "weights_by_place", "weights_by_one_version",
                                    "weights_by_pointer", "pointer_until_w1_moves"}) {
    expect_hidden(specimen, "warm");
  }
}

}  // namespace
}  // namespace assay
