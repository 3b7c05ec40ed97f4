// SPDX-License-Identifier: Apache-2.0
#include "study/alone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "study/findings.h"
#include "study/self/sum_op.h"

namespace assay::study {
namespace {

using test::kA, test::kB, test::kK, test::kM;

// Adds up from the last term on where `is_backwards` says so of the batch.
template <class IsBackwards>
Path adding(std::string_view name, const IsBackwards& is_backwards) {
  return {.name = name,
          .device = DeviceKind::kCpu,
          .dtypes = {DType::kF32},
          .deterministic = true,
          .recipe = f32_recipe,
          .unsupported = {},
          .run =
              [is_backwards](const Call& call) {
                const ConstTensorView &a = call.inputs[kA], &b = call.inputs[kB];
                const int64_t rows = a.shape[0], terms = a.shape[1];
                for (int64_t m = 0; m < rows; ++m) {
                  float sum = 0;
                  for (int64_t i = 0; i < terms; ++i) {
                    const int64_t k = is_backwards(rows) ? terms - 1 - i : i;
                    sum += a.as<float>()[m * a.strides[0] + k * a.strides[1]] *
                           b.as<float>()[m * b.strides[0] + k * b.strides[1]];
                  }
                  call.outputs[0].as<float>()[m * call.outputs[0].strides[0]] = sum;
                }
              },
          .summary = "adds up"};
}

std::optional<bool> found_alone(const Path& path, int64_t rows, const Oracle& oracle = test::sum_oracle()) {
  Op op = test::sum_op();
  op.paths = {path};
  Plan plan = test::sum_plan({});
  plan.op = &op;
  plan.oracle = &oracle;
  plan.dims = {{kM, rows}, {kK, 100}};
  plan.draws = 3;
  plan.contenders.clear();
  plan.contenders.push_back({.name = std::string(path.name),
                             .dtype = DType::kF32,
                             .path = &op.paths[0],
                             .recipe = [](const Dims& dims) { return f32_recipe(dims, DType::kF32); }});
  const Study study = test::run(plan);
  const Summary summary = summarize(study).at(0);
  EXPECT_EQ(summary.repeats, true);
  EXPECT_EQ(summary.points.at(0).standing, Standing::kMet);
  return summary.alone;
}

TEST(Alone, APathThatLooksAtTheBatchIsFound) {
  EXPECT_EQ(found_alone(adding("honest", [](int64_t) { return false; }), 8), true);
  EXPECT_EQ(found_alone(adding("looks", [](int64_t rows) { return rows > 1; }), 8), false);
}

TEST(Alone, ABatchOfOneTellsNothing) {
  EXPECT_EQ(found_alone(adding("looks", [](int64_t rows) { return rows > 1; }), 1), std::nullopt);
}

// The last row is made from the first one: alone it is another row.
TEST(Alone, NothingIsAskedWhereEntriesDependOnEachOther) {
  Oracle oracle = test::sum_oracle();
  oracle.formula = [](const Question& question, int, const Arithmetic& a, int) {
    const int64_t rows = question.dims[kM], terms = question.dims[kK];
    return each(question, a, {rows},
                [x = Reader(question.inputs[kA]), y = Reader(question.inputs[kB]), &a, rows, terms,
                 sum = question.recipe.sum(test::kSum)](const Extents& at, Products& products) {
                  for (int64_t k = 0; k < terms; ++k)
                    products.add(x({rows - 1 - at[0], k}), y({rows - 1 - at[0], k}));
                  return products.sum(a, sum);
                });
  };
  Path path = adding("turned", [](int64_t) { return false; });
  path.run = [](const Call& call) {
    const ConstTensorView &a = call.inputs[kA], &b = call.inputs[kB];
    const int64_t rows = a.shape[0];
    for (int64_t m = 0; m < rows; ++m) {
      double sum = 0;
      for (int64_t k = 0; k < a.shape[1]; ++k)
        sum += double{a.as<float>()[(rows - 1 - m) * a.strides[0] + k * a.strides[1]]} *
               double{b.as<float>()[(rows - 1 - m) * b.strides[0] + k * b.strides[1]]};
      call.outputs[0].as<float>()[m * call.outputs[0].strides[0]] = static_cast<float>(sum);
    }
  };
  EXPECT_EQ(found_alone(path, 8, oracle), std::nullopt);
}

}  // namespace
}  // namespace assay::study
