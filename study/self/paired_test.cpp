// SPDX-License-Identifier: Apache-2.0
#include "study/paired.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "study/self/sum_op.h"

namespace assay::study {
namespace {

TEST(Paired, OneStudyIsEqualToItself) {
  const Study study = test::run(test::sum_plan({"k=64,256"}));
  for (const Paired& paired : compare(study, study)) EXPECT_EQ(paired.reading, "equal");
}

TEST(Paired, ASmallErrorInEachCellIsSeenAndOneInHalfOfThemIsNot) {
  const Study before = test::run(test::sum_plan({"k=64,256,512"}));
  Study after = before;
  for (Cell& cell : after.cells) *cell.errors.normwise *= 1.01;
  for (const Paired& paired : compare(before, after)) {
    EXPECT_EQ(paired.reading, "worse");
    EXPECT_NEAR(paired.ratio, 1.01, 1e-9);
  }
  for (const Paired& paired : compare(after, before)) EXPECT_EQ(paired.reading, "better");
  after = before;
  for (size_t i = 0; i < after.cells.size(); ++i)
    *after.cells[i].errors.normwise *= after.cells[i].draw % 2 == 0 ? 1.5 : 0.5;
  for (const Paired& paired : compare(before, after)) EXPECT_EQ(paired.reading, "unclear");
}

TEST(Paired, WhatIsLostIsWorse) {
  const Study before = test::run(test::sum_plan({"k=64,256"}));
  const auto readings = [&](const auto& spoil) {
    Study after = before;
    for (Cell& cell : after.cells) *cell.errors.normwise *= 0.99;
    spoil(after);
    std::string all;
    for (const Paired& paired : compare(before, after)) all += paired.reading + " ";
    return all;
  };
  EXPECT_THAT(readings([](Study&) {}), testing::Not(testing::HasSubstr("worse")));
  EXPECT_THAT(readings([](Study& after) { after.cells[0].errors.nonfinite = 1; }),
              testing::HasSubstr("worse"));
  EXPECT_THAT(readings([](Study& after) { after.cells[0].errors.outside = 1; }), testing::HasSubstr("worse"));
  EXPECT_THAT(readings([](Study& after) { after.cells[0].errors.normwise.reset(); }),
              testing::HasSubstr("worse"));
  EXPECT_THAT(readings([](Study& after) { after.cells.erase(after.cells.begin()); }),
              testing::HasSubstr("worse"));
}

TEST(Paired, AContenderThatIsGoneIsNotWorse) {
  const Study before = test::run(test::sum_plan({"k=64"}));
  Study after = before;
  std::erase_if(after.cells, [](const Cell& cell) { return cell.contender == 0; });
  std::set<std::string> readings;
  for (const Paired& paired : compare(before, after)) readings.insert(paired.reading);
  EXPECT_EQ(readings, (std::set<std::string>{"equal", "gone"}));
}

// Two outputs of one draw that err alike are no two witnesses: six draws of each cannot tell.
TEST(Paired, OutputsOfOneDrawAreNotCountedTwice) {
  Study before = test::run(test::sum_plan({"k=64"}));
  before.outputs.emplace_back("twin");
  for (size_t i = before.cells.size(); i-- > 0;) {
    before.cells.push_back(before.cells[i]);
    before.cells.back().output = 1;
  }
  Study after = before;
  for (Cell& cell : after.cells) *cell.errors.normwise *= 1.01;
  const std::vector<Paired> all = compare(before, after);
  EXPECT_EQ(std::ssize(all), 2 * std::ssize(before.contenders));
  for (const Paired& paired : all) EXPECT_EQ(paired.reading, "unclear") << paired.output;
}

TEST(Paired, OtherDrawsAreNotCompared) {
  const Study study = test::run(test::sum_plan({"k=64"}));
  Study other = study;
  other.seed = 1;
  EXPECT_THROW(compare(study, other), Error);
  other = study;
  other.cells.clear();
  EXPECT_THROW(compare(study, other), Error);
}

}  // namespace
}  // namespace assay::study
