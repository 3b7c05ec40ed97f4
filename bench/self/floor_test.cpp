// SPDX-License-Identifier: Apache-2.0
// The floor of paths with several launches, and what such paths declare.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>

#include "bench/core/ceilings.h"
#include "kernels/cheri/cheri.h"
#include "kernels/trimul/trimul.h"
#include "properties/core/registry.h"

namespace assay {

void PrintTo(const FloorPart& part, std::ostream* out) {
  *out << fmt::format("{} by {}: {} ns, {} bytes, {} flops", part.name, name_of(part.limit), part.ns,
                      part.bytes, part.flops);
}

namespace {

using testing::ElementsAre;
using Limit = FloorPart::Limit;

// One byte takes 1 s, one flop 2 s.
const Ceilings kRates{.copy_bytes_per_s = 1,
                      .copy_method = "given",
                      .read_bytes_per_s = 1,
                      .product_flops_per_s = {{Format::kStored, 0.5}},
                      .launch_s = 5,
                      .next_launch_s = 2};

TEST(Floor, IsTheSumOfLaunchesAndOfTheLongerTimeOfEach) {
  const Stage stages[] = {{.name = "a", .bytes = 100, .writes = 70, .flops = 10},
                          {.name = "b", .reads = 50, .flops = 10},
                          {.name = "c", .bytes = 30, .reads = 65, .writes = 64}};
  const auto parts = floor_parts(kRates, {.bytes = 130, .flops = 20}, stages, {.storage = DType::kF32}, 64);
  EXPECT_THAT(
      parts,
      ElementsAre(FloorPart{"3 launches", Limit::kLaunch, 9e9}, FloorPart{"a", Limit::kBytes, 106e9, 106, 10},
                  FloorPart{"b", Limit::kFlops, 20e9, 0, 10}, FloorPart{"c", Limit::kBytes, 31e9, 31, 0}));
}

TEST(Floor, OfOneLaunchIsThatOfTheWholeCost) {
  const auto parts = floor_parts(kRates, {.bytes = 130, .flops = 100}, {}, {.storage = DType::kF32}, 64);
  EXPECT_THAT(parts, ElementsAre(FloorPart{"launch", Limit::kLaunch, 5e9},
                                 FloorPart{"call", Limit::kFlops, 200e9, 130, 100}));
}

TEST(Floor, HasNoLaunchWhereNoneWasMeasured) {
  Ceilings older = kRates;
  older.launch_s = older.next_launch_s = 0;
  EXPECT_EQ(floor_parts(older, {.bytes = 1, .flops = 0}, {}, {.storage = DType::kF32}, 0).size(), 1u);
}

// Why the stages do not declare the work of the op; empty if they do.
std::string fault_of(const std::vector<Stage>& stages, const Cost& cost) {
  int64_t bytes = 0, flops = 0, passed = 0;
  for (const Stage& stage : stages) {
    if (std::min({stage.bytes, stage.reads, stage.writes, stage.flops}) < 0) return "a negative number";
    // What no earlier launch has touched cannot be read again.
    if (stage.reads > bytes + passed) return fmt::format("{} reads what nobody left", stage.name);
    bytes += stage.bytes;
    flops += stage.flops;
    passed += stage.writes;
  }
  if (bytes != cost.bytes) return fmt::format("{} bytes of {}", bytes, cost.bytes);
  if (flops != cost.flops) return fmt::format("{} flops of {}", flops, cost.flops);
  return "";
}

TEST(Stages, ShareTheCostOfTheOp) {
  using Stages = std::vector<Stage> (*)(const Dims&, DType);
  const std::pair<std::string_view, Stages> declared[] = {
      {"cheri_conv_norm", cheri::conv_norm_two_pass_stages},
      {"cheri_conv_norm_grad", cheri::conv_norm_grad_two_pass_stages},
      {"cheri_conv_norm_grad", cheri::conv_norm_grad_ring_stages},
      {"cheri_block", cheri::block_fused_stages}};
  for (const auto& [name, stages] : declared) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Dims dims{{"n", 3}, {"l", 50}, {"c", 7}, {"dilation", 2}};
      if (name == "cheri_block") dims.set("hidden", 32);
      EXPECT_EQ(fault_of(stages(dims, dtype), registry().op(name).cost(dims, dtype)), "") << name;
    }
  }
  for (const Format factors : {Format::kF16, Format::kBF16, Format::kF16x3}) {
    const Dims dims{{"b", 2}, {"n", 9}, {"c", 5}, {"h", 3}, {"mask", 1}};
    const Cost cost = registry().op("trimul").cost(dims, DType::kF32);
    EXPECT_EQ(fault_of(trimul::stages_of(factors, dims), cost), "") << name_of(factors);
  }
}

TEST(Stages, OfPathsOfThisBuildShareTheCostOfTheirOps) {
  for (const Op* op : registry().ops()) {
    Dims dims;
    for (const DimInfo& dim : op->dims)
      dims.set(std::string(dim.key), std::clamp<int64_t>(48, dim.min, dim.max));
    for (const Path& path : op->paths) {
      if (!path.stages) continue;
      for (const DType dtype : path.dtypes)
        EXPECT_EQ(fault_of(path.stages(dims, dtype), op->cost(dims, dtype)), "")
            << op->name << "/" << path.name;
    }
  }
}

// A wrong part is seen: one changed number of one stage.
TEST(Stages, OfWhichOneIsWrongAreFound) {
  const Dims dims{{"b", 2}, {"n", 9}, {"c", 5}, {"h", 3}, {"mask", 1}};
  const Cost cost = registry().op("trimul").cost(dims, DType::kF32);
  const auto wrong = [&](size_t stage, int64_t Stage::*number, int64_t by) {
    auto stages = trimul::stages_of(Format::kF16, dims);
    stages[stage].*number += by;
    return fault_of(stages, cost);
  };
  EXPECT_NE(wrong(0, &Stage::bytes, 4), "");
  EXPECT_NE(wrong(1, &Stage::flops, -2), "");
  EXPECT_NE(wrong(1, &Stage::reads, int64_t{1} << 40), "");
  EXPECT_NE(wrong(2, &Stage::bytes, -1000000), "");
  EXPECT_EQ(wrong(2, &Stage::bytes, 0), "");
}

}  // namespace
}  // namespace assay
