// SPDX-License-Identifier: Apache-2.0
// An op whose errors are known: out[m] = sum_k a[m,k] * b[m,k].
#pragma once

#include "oracles/core/formula.h"
#include "study/study.h"

namespace assay::test {

inline constexpr Dim kM{0, "m"}, kK{1, "k"};
inline constexpr Input kA{0, "a"}, kB{1, "b"};
inline constexpr Output kOut{0, "out"};
inline constexpr Site kSum{0, "sum"};

inline const Op& sum_op() {
  const auto truncated = [](const Dims&, DType storage) {
    Recipe recipe{.storage = storage};
    recipe.sums.push_back({.site = kSum, .truncates = true});
    return recipe;
  };
  static const Op op{.name = "sum",
                     .formula = "out[m] = sum_k a[m,k] * b[m,k]",
                     .dims = {{kM, 1, 1 << 20, {}, "rows"}, {kK, 1, 1 << 20, {}, "terms"}},
                     .inputs = {{kA, "m k", {}, "factors"}, {kB, "m k", {}, "factors"}},
                     .outputs = {{kOut, "m", {}, "sums"}},
                     .cost = [](const Dims&, DType) { return Cost{}; },
                     .paths = {},
                     .absent = {{"rounded", {DType::kF32, DType::kBF16}, f32_recipe},
                                {"truncated", {DType::kF32}, truncated}}};
  return op;
}

inline const Oracle& sum_oracle() {
  static const Oracle oracle{.op = "sum",
                             .formula =
                                 [](const Question& question, int, const Arithmetic& a, int) {
                                   return each(
                                       question, a, {question.dims[kM]},
                                       [x = Reader(question.inputs[kA]), y = Reader(question.inputs[kB]), &a,
                                        sum = question.recipe.sum(kSum),
                                        terms = question.dims[kK]](const Extents& at, Products& products) {
                                         for (int64_t k = 0; k < terms; ++k)
                                           products.add(x({at[0], k}), y({at[0], k}));
                                         return products.sum(a, sum);
                                       });
                                 },
                             .sums = {kSum},
                             .block_axes = {1}};
  return oracle;
}

inline study::Plan sum_plan(std::vector<std::string> axes, const std::string& data = "normal",
                            uint64_t seed = 0) {
  study::Plan plan{.op = &sum_op(),
                   .oracle = &sum_oracle(),
                   .axes = {},
                   .dims = {{kM, 128}, {kK, 64}},
                   .contenders = {},
                   .draws = 6,
                   .seed = seed};
  for (const std::string& axis : axes) plan.axes.push_back(study::parse_axis(sum_op(), axis));
  plan.axes.push_back(study::parse_data_axis(data));
  plan.contenders = study::contenders_of(
      sum_op(), sum_oracle(), {}, {}, [](DType) { return true; }, [](const Path&) { return false; },
      plan.dims);
  return plan;
}

// All cells of the plan.
inline study::Study run(const study::Plan& plan) {
  study::Study study = study::begin(plan);
  static const std::unique_ptr<Device> device = open_cpu();
  study::Runner runner(*plan.op, [](const Path&) -> Device& { return *device; });
  study.complete = study::run_cells(plan, study, runner,
                                    {.gives_up = [] { return false; },
                                     .add =
                                         [&](std::vector<study::Cell> cells) {
                                           for (study::Cell& cell : cells)
                                             study.cells.push_back(std::move(cell));
                                         },
                                     .progress = [](size_t, int64_t) {}});
  return study;
}

}  // namespace assay::test
