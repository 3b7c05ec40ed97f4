// SPDX-License-Identifier: Apache-2.0
// bench --sweep, and the figure of times over sizes.
#include <gtest/gtest.h>

#include "reports/program/problems.h"
#include "reports/render/size_charts.h"
#include "reports/self/error_of.h"

namespace assay {
namespace {

std::vector<Sweep> swept_by(std::vector<std::string> axes, std::optional<int64_t> most = {},
                            DType dtype = DType::kF32) {
  const Registry& all = registry();
  const std::vector<SelectedPath> paths{{all.subject("dynamic_conv", "cpu"), nullptr},
                                        {all.subject("dynamic_conv_grad", "cpu"), nullptr}};
  Options options;
  options.sizes = std::move(axes);
  options.dtype = dtype;
  options.max_elements = most;
  return swept(paths, sweeps(), options);
}

TEST(Swept, IsAGridForEachOp) {
  const auto problems = swept_by({"t=4,8", "d=1,2,3"});
  ASSERT_EQ(problems.size(), 2u * 6);
  EXPECT_EQ(problems[1].op, "dynamic_conv");
  EXPECT_EQ(problems[1].dims.at("t"), 4);
  EXPECT_EQ(problems[1].dims.at("d"), 2);
  EXPECT_EQ(problems[1].dims.at("w"), 4) << "as in the op's first problem";
}

// No problem of the op is timed in f16.
TEST(Swept, HasTheDTypeThatIsAskedFor) {
  const auto problems = swept_by({"t=4,8"}, {}, DType::kF16);
  ASSERT_EQ(problems.size(), 2u * 2);
  for (const Sweep& problem : problems) {
    EXPECT_EQ(problem.dtype, DType::kF16);
    EXPECT_EQ(problem.dims.at("w"), 4) << "as in the op's first problem";
  }
}

TEST(Swept, LeavesOutLargeTensors) {
  const auto problems = swept_by({"b=1", "t=4,8", "d=2", "w=4"}, 32);  // k has 32 and 64 elements
  ASSERT_EQ(problems.size(), 2u);
  for (const Sweep& problem : problems) EXPECT_EQ(problem.dims.at("t"), 4);
}

TEST(Swept, RefusesWhatIsNoSize) {
  const auto error_of_axes = [](const std::vector<std::string>& axes, std::optional<int64_t> most = {}) {
    return error_of([&] { swept_by(axes, most); });
  };
  EXPECT_EQ(error_of_axes({"x.scale=1,2"}), "--sweep x.scale is no dimension of dynamic_conv");
  EXPECT_EQ(error_of_axes({"length=1"}),
            "--sweep length=1: dynamic_conv has no axis length; FILTER selects ops");
  EXPECT_EQ(error_of_axes({"t=4", "t=8"}), "--sweep t stands twice");
  EXPECT_EQ(error_of_axes({"t=4,8"}, 1), "--max-elements 1 leaves out all sizes of --sweep");
  EXPECT_THROW(swept_by({"w=-1"}), Error);
}

Record timed_over(int sizes) {
  Record record;
  for (int i = 0; i < sizes; ++i) {
    CaseRecord item;
    item.which.op = "an_op";
    item.which.path = "a<path";
    item.device = "cpu";
    item.perf = Perf{};
    item.perf->bytes = 1000 << i;
    item.perf->floor_ns = 100;
    item.perf->median_ns = i == 0 ? 150 : 151;
    item.perf->graph = GraphTimes{.samples_ns = {120}, .median_ns = 120};
    record.cases.push_back(item);
  }
  return record;
}

TEST(SizeCharts, NeedFiveSizes) {
  EXPECT_EQ(size_charts(timed_over(4)), "");
  EXPECT_EQ(size_charts({}), "");
  const std::string charts = size_charts(timed_over(5));
  EXPECT_NE(charts.find("an_op/a&lt;path"), std::string::npos) << charts;
  EXPECT_NE(charts.find("1 of 5 problems within 1.5 times the floor"), std::string::npos) << charts;
  EXPECT_NE(charts.find("1.50 times the floor"), std::string::npos) << "of the stream";
  EXPECT_NE(charts.find("of a graph, 1.20 times the floor"), std::string::npos);
}

}  // namespace
}  // namespace assay
