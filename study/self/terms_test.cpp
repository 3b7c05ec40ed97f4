// SPDX-License-Identifier: Apache-2.0
#include "study/terms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "study/findings.h"
#include "study/question.h"
#include "study/self/sum_op.h"

namespace assay::study {
namespace {

using test::run;
using test::sum_plan;

TEST(Terms, TheirSizeIsTheSumOfTheirMagnitudes) {
  for (const char* data : {"normal", "positive", "graded:20", "outliers:1e-2:1e3"}) {
    const Plan plan = sum_plan({"k=1,33,500"}, data);
    for (size_t k = 0; k < 3; ++k) {
      const Point point{k, 0};
      const Dims dims = dims_at(plan.axes, point, plan.dims);
      const auto drawn = draw_inputs(*plan.op, plan.axes, point, dims, 0, 0, nullptr);
      const TensorBytes bytes = stored(*plan.op, drawn, DType::kF32);
      const Question question = question_of(*plan.op, dims, bytes, DType::kF32, {.storage = DType::kF32});
      const int64_t rows = dims[test::kM], terms = dims[test::kK];
      std::vector<int64_t> elements(static_cast<size_t>(rows));
      std::iota(elements.begin(), elements.end(), 0);
      const std::vector<double> sizes = sizes_of_terms(*plan.oracle, question, 0, elements, 1);
      ASSERT_EQ(std::ssize(sizes), rows) << data << " k=" << terms;
      const Values a = read(bytes[0], DType::kF32), b = read(bytes[1], DType::kF32);
      for (int64_t m = 0; m < rows; ++m) {
        double size = 0;
        for (int64_t i = m * terms; i < (m + 1) * terms; ++i)
          size += std::abs(a[static_cast<size_t>(i)] * b[static_cast<size_t>(i)]);
        EXPECT_NEAR(sizes[static_cast<size_t>(m)], size, 0.02 * size) << data << " k=" << terms;
      }
    }
  }
}

// Terms that cancel leave a large error beside the sum, and none beside the terms. A sum that is
// kept in bf16 has one beside them, too.
TEST(Terms, AnErrorBesideThemTellsCancellationFromABadSum) {
  Plan plan = sum_plan({"k=64"});
  plan.contenders = contenders_of(
      *plan.op, *plan.oracle, {"rounded"}, {"bad=rounded:sum=kept-in-bf16"},
      [](DType dtype) { return dtype == DType::kF32; }, [](const Path&) { return false; }, plan.dims);
  const std::vector<Summary> summaries = summarize(run(plan));
  const PointSummary &good = summaries[0].points.front(), &bad = summaries[1].points.front();
  EXPECT_LE(*good.over_terms, 64 * 0x1p-24);
  EXPECT_GT(*good.componentwise, 64 * 0x1p-24);
  EXPECT_GT(*bad.over_terms, 0x1p-10);
}

}  // namespace
}  // namespace assay::study
