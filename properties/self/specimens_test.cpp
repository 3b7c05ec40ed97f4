// SPDX-License-Identifier: Apache-2.0
// Every known-bad implementation is caught with the default budget.
#include <iostream>
#include <set>

#include "properties/core/fuzz.h"
#include "properties/self/support.h"
#include "properties/specimens/dynamic_conv.h"

namespace assay {
namespace {

class EverySpecimen : public testing::TestWithParam<const Specimen*> {};

std::vector<const Specimen*> all_specimens() {
  std::vector<const Specimen*> all;
  for (const Specimen& specimen : registry().specimens()) all.push_back(&specimen);
  return all;
}

std::string identifier(const Specimen& specimen) {
  std::string name = fmt::format("{}_{}", specimen.op, specimen.path.name);
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EverySpecimen, testing::ValuesIn(all_specimens()),
                         [](const auto& test) { return identifier(*test.param); });

TEST_P(EverySpecimen, IsCaught) {
  const Specimen& specimen = *GetParam();
  const Subject subject = registry().subject(specimen.op, specimen.path.name);
  ASSERT_EQ(subject.path, &specimen.path);
  for (uint64_t seed = 0; seed < 3; ++seed) {
    FuzzOptions options;
    options.seed = seed;
    options.stop_at_first_failure = true;
    std::optional<Judged> caught;
    int64_t judged = 0;
    fuzz(subject, test::cpu(), options, [&](const Judged& one) {
      ++judged;
      if (is_failure(one.verdict.kind)) caught = one;
      return true;
    });
    ASSERT_TRUE(caught) << specimen.fault << ": not caught in " << judged << " cases with seed " << seed;
    EXPECT_EQ(caught->verdict.kind, VerdictKind::kFail) << caught->verdict.reason;
    if (seed != 0) continue;
    std::cout << caught->which.to_string() << "\n    " << specimen.fault << "; case " << judged << ": "
              << caught->verdict.reason << "\n";
  }
}

// The smallest tensors that show a wrapped offset lie 2^32 elements apart: only this layout can.
TEST(Specimens, NarrowOffsetsAreCaughtByInflatedTensors) {
  for (std::string_view op : {"dynamic_conv", "dynamic_conv_grad"}) {
    Case which = parse_case(fmt::format("{}/specimen.narrow_offsets/bf16/b=2/t=3/d=4/w=2", op));
    const Subject subject = registry().subject(op, which.path);
    EXPECT_EQ(judge(subject, which, test::cpu()).kind, VerdictKind::kPass);
    which.layout = Layout::kInflated;
    EXPECT_EQ(judge(subject, which, test::cpu()).kind, VerdictKind::kFail);
  }
}

TEST(Specimens, AreNoPathsOfTheirOps) {
  std::set<std::string> names;
  for (const Specimen* specimen : all_specimens()) {
    EXPECT_TRUE(specimen->path.name.starts_with("specimen."));
    EXPECT_TRUE(names.insert(identifier(*specimen)).second) << specimen->path.name;
    for (const Path& path : registry().op(specimen->op).paths) EXPECT_NE(path.name, specimen->path.name);
  }
}

}  // namespace
}  // namespace assay
