// SPDX-License-Identifier: Apache-2.0
// What the program adds to what a path's timer says.
#include "reports/program/judging.h"

#include <gtest/gtest.h>

#include "properties/core/case.h"
#include "properties/core/registry.h"
#include "reports/program/options.h"

namespace assay {
namespace {

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

}  // namespace
}  // namespace assay
