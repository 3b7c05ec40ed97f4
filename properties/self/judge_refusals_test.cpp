// SPDX-License-Identifier: Apache-2.0
// What a path says of a case before it runs, and what it may not do there.
#include <cfenv>

#include "properties/core/judge.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

using dynamic_conv::kW;
using test::expect;
using test::judge_path;
using test::small_case;
using test::spoiled;
using testing::HasSubstr;

TEST(JudgeRefusals, UnsupportedHasItsReason) {
  Path path = spoiled([](const Call&) {});
  path.unsupported = [](const Dims& dims, DType) { return fmt::format("w={} is too long", dims[kW]); };
  expect(judge_path(path), VerdictKind::kUnsupported, HasSubstr("w=8 is too long"));
  Case wide = small_case();
  wide.dtype = DType::kF64;
  expect(judge_path(spoiled([](const Call&) {}), wide), VerdictKind::kUnsupported, HasSubstr("f64"));
}

TEST(JudgeRefusals, APathThatWasAskedHasToServe) {
  Path path = spoiled([](const Call&) { throw unsupported_error("no {}", "way"); });
  const auto refuses = HasSubstr("refuses a problem that it says it serves: no way");
  expect(judge_path(path), VerdictKind::kFail, refuses);
  path.unsupported = [](const Dims&, DType) { return std::optional<std::string>(); };
  expect(judge_path(path), VerdictKind::kFail, refuses);
  expect(judge_path(spoiled([](const Call&) { throw ForcedIsUnfit("no {}", "way"); })), VerdictKind::kFail,
         refuses);
}

TEST(JudgeRefusals, WhatAPathThrowsWhenItIsAskedIsAVerdict) {
  Path path = spoiled([](const Call&) {});
  path.unsupported = [](const Dims&, DType) -> std::optional<std::string> { throw 7; };
  expect(judge_path(path), VerdictKind::kCrashed,
         HasSubstr("threw an object of the type int, in unsupported()"));
  path.unsupported = {};
  path.recipe = [](const Dims&, DType) -> Recipe { throw usage_error("no {}", "recipe"); };
  expect(judge_path(path), VerdictKind::kCrashed, HasSubstr("no recipe, in recipe()"));
}

TEST(JudgeRefusals, APathMayNotRoundOtherwiseWhereItIsAsked) {
  const auto rounds_up = HasSubstr("the path changed the rounding mode, in unsupported()");
  Path path = spoiled([](const Call&) {});
  path.unsupported = [](const Dims&, DType) {
    std::fesetround(FE_UPWARD);
    return std::optional<std::string>("it is odd");
  };
  expect(judge_path(path), VerdictKind::kFail, rounds_up);
  path.unsupported = [](const Dims&, DType) -> std::optional<std::string> {
    std::fesetround(FE_UPWARD);
    throw 7;
  };
  expect(judge_path(path), VerdictKind::kFail, rounds_up);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST(JudgeRefusals, IllegalCasesAreRefusedOrSkipped) {
  Case none = small_case();
  none.dims.set("w", 9);
  EXPECT_THAT(test::error_of([&] { judge_path(spoiled([](const Call&) {}), none); }), HasSubstr("w=9"));
  Case single = small_case();
  single.dims.set("b", 1);
  single.layout = Layout::kBroadcast;
  expect(judge_path(spoiled([](const Call&) {}), single), VerdictKind::kSkipped, HasSubstr("broadcast"));
}

}  // namespace
}  // namespace assay
