// SPDX-License-Identifier: Apache-2.0
// What the program adds to what a path's timer says.
#include "reports/program/judging.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <set>
#include <thread>
#include <utility>

#include "properties/core/case.h"
#include "properties/core/registry.h"
#include "reports/program/options.h"

namespace assay {
namespace {

using namespace std::chrono_literals;

// With these ceilings the floor of any call takes hours. The problem takes far longer than its
// bytes and flops do, also by ceilings that are measured beside other tests.
TEST(PathJudge, HoldsAnImpossibleTimeAgainstTheCeilingsOfNow) {
  const auto device = open_cpu();
  Options options;
  options.isolate = false;
  PathJudge judge(registry().subject("trimul", "cpu"), *device, options);
  const Ceilings slow{
      .copy_bytes_per_s = 1, .copy_method = "given", .read_bytes_per_s = 1, .product_flops_per_s = {}};
  const auto record = judge.bench(parse_case("trimul/cpu/f32/b=1/n=12/c=32/h=32/mask=1"), slow);
  ASSERT_TRUE(record && record->perf) << (record ? record->verdict.reason : "");
  EXPECT_GT(record->perf->fraction_of_floor, 1e6);
  EXPECT_EQ(record->perf->implausible, std::nullopt);
}

Verdict verdict_on(const std::function<void(const Call&)>& run) {
  Subject subject = registry().subject("dynamic_conv", "cpu");
  Path path = *subject.path;
  path.run = [&run, compute = path.run](const Call& call) {
    run(call);
    compute(call);
  };
  subject.path = &path;
  const auto device = open_cpu();
  Options options;
  options.isolate = false;
  PathJudge judge(subject, *device, options);
  return judge.bench(parse_case("dynamic_conv/cpu/f32/b=3/t=64/d=64/w=4"), {}).value().verdict;
}

// On a path that takes 5 ms longer on inputs that it has not seen, until it has seen so many.
VerdictKind verdict_on_one_that_learns(size_t most) {
  std::set<float> seen;
  return verdict_on([&](const Call& call) {
           const ConstTensorView& x = call.inputs[0];
           if (x.size() > 0 && seen.size() < most && seen.insert(*static_cast<const float*>(x.data)).second)
             std::this_thread::sleep_for(5ms);
         })
      .kind;
}

// The first timer meets some 19 inputs: the judged ones, other data, and seven draws of this shape
// and of another one. The second meets as many again.
TEST(PathJudge, WhatTimesSayOnceIsADoubt) {
  EXPECT_EQ(verdict_on_one_that_learns(0), VerdictKind::kPass);
  EXPECT_EQ(verdict_on_one_that_learns(20), VerdictKind::kPass);
  EXPECT_EQ(verdict_on_one_that_learns(1000), VerdictKind::kFail);
}

// Of so long calls one in two is beside a call of another shape.
TEST(PathJudge, ACallMayTakeLongerAfterOneOfAnotherShape) {
  Dims last;
  const Verdict verdict = verdict_on([&](const Call& call) {
    std::this_thread::sleep_for(std::exchange(last, call.dims) == call.dims ? 25ms : 50ms);
  });
  EXPECT_EQ(verdict.kind, VerdictKind::kPass) << verdict.reason;
}

}  // namespace
}  // namespace assay
