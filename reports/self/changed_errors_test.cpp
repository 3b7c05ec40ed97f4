// SPDX-License-Identifier: Apache-2.0
// The gate finds errors that grew, in a path and in one output.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "reports/render/changes.h"
#include "reports/render/text.h"
#include "reports/self/changed_record.h"

namespace assay {
namespace {

using namespace test;

TEST(ChangedErrors, FindsErrorsThatGrew) {
  const Changes changes = changes_of([](Record& after) { grow(after, 2); });
  ASSERT_EQ(count(changes.errors, Change::kWorse), 1);
  const ErrorChange& worst = changes.errors.front();
  EXPECT_EQ(worst.op + "/" + worst.path, "dynamic_conv/cpu");
  EXPECT_EQ(worst.dtype, DType::kF32);
  EXPECT_NEAR(worst.ratio, 2, 1e-12);
  ASSERT_TRUE(worst.grown);
  EXPECT_TRUE(has(render_changes(changes, false), replay_command("assay", *worst.grown)));
  EXPECT_EQ(count(changes_of([](Record& after) { grow(after, 1.2); }).errors, Change::kWorse), 0);
  EXPECT_EQ(count(changes_of([](Record& after) { grow(after, 0.5); }).errors, Change::kBetter), 1);
  EXPECT_EQ(count(changes_of([](Record& after) { grow(after, 64, true); }).errors, Change::kWorse), 1);
}

// One case of many hardly moves the mean.
TEST(ChangedErrors, FindsTheOneCaseWhoseErrorsGrew) {
  const auto one = [](double share) {
    return [=](Record& after) {
      OutputNumerics& output = passing_case(after).verdict.outputs.front();
      output.comparison.max_error_over_bound = 1;
      output.conformity->rms += share * output.conformity->allowed;
    };
  };
  const Changes changes = changes_of(one(0.3));
  ASSERT_EQ(count(changes.errors, Change::kWorse), 1);
  const auto worse = std::ranges::find(changes.errors, Change::kWorse, &ErrorChange::change);
  EXPECT_LT(worse->ratio, 1.25);
  EXPECT_NEAR(worse->growth, 0.3, 1e-3);
  EXPECT_DOUBLE_EQ(worse->worst_after, 1);
  Record record = example_record();
  EXPECT_EQ(worse->grown, passing_case(record).which);
  EXPECT_EQ(count(changes_of(one(0.2)).errors, Change::kWorse), 0);
}

// A new version cannot hide larger errors behind wider bounds.
TEST(ChangedErrors, MeasuresErrorsByWhatWasAllowedBefore) {
  const Changes changes = changes_of([](Record& after) {
    grow(after, 2);
    for (CaseRecord* item : cases_of(after, "dynamic_conv", "cpu", DType::kF32)) {
      for (OutputNumerics& output : item->verdict.outputs) {
        output.conformity->allowed *= 10;
        output.comparison.max_error_over_bound /= 10;
      }
    }
  });
  EXPECT_EQ(count(changes.errors, Change::kWorse), 1);
}

// Where nothing may be rounded, nothing was allowed. Errors against the exact values then compare
// with those of before.
TEST(ChangedErrors, AreFoundWhereNothingMayBeRounded) {
  const auto change = [](double was, double is) {
    std::array<Record, 2> sides{example_record(), example_record()};
    for (const auto& [side, rms] : {std::pair(&sides[0], was), std::pair(&sides[1], is)}) {
      for (CaseRecord* item : cases_of(*side, "dynamic_conv", "cpu", DType::kF32)) {
        for (OutputNumerics& output : item->verdict.outputs) {
          output.comparison.sum_square_error = rms * rms * static_cast<double>(output.comparison.finite);
          output.conformity->rms = output.conformity->allowed = 0;
        }
      }
    }
    const Changes changes = changes_between({&sides[0], 1}, {&sides[1], 1});
    const auto path = std::ranges::find_if(changes.errors, [](const ErrorChange& error) {
      return error.op == "dynamic_conv" && error.path == "cpu" && error.dtype == DType::kF32;
    });
    return path == changes.errors.end() ? std::nullopt : std::optional(path->change);
  };
  EXPECT_EQ(change(0.001, 0.0012), Change::kSame);
  EXPECT_EQ(change(0.001, 0.0013), Change::kWorse);
  EXPECT_EQ(change(0.001, 0), Change::kBetter);
  EXPECT_EQ(change(0, 1e-30), Change::kWorse);  // all was exact
  EXPECT_EQ(change(0, 0), std::nullopt);        // nothing to compare
}

}  // namespace
}  // namespace assay
