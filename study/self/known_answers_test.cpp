// SPDX-License-Identifier: Apache-2.0
// Errors whose size theory knows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

#include "properties/self/marks.h"
#include "study/findings.h"
#include "study/self/sum_op.h"

namespace assay::study {
namespace {

using test::run;
using test::sum_plan;
using testing::HasSubstr;

size_t number_of(const Study& study, std::string_view label) {
  for (size_t i = 0; i < study.contenders.size(); ++i) {
    if (study.contenders[i].label() == label) return i;
  }
  throw Error("there is no contender {}", label);
}

constexpr std::string_view kOnlyNumbers =
    "RoundedSumsOfZeroMeanGrowAsTheSquareRoot has the fits, TheGroundsAreOfOnePoint the answers";

Fit fit_of(const Study& study, std::string_view label, size_t axis = 0) {
  for (const Fit& fit : fits(study)) {
    if (fit.contender == number_of(study, label) && fit.axis == axis) return fit;
  }
  throw Error("there is no fit for {}", label);
}

TEST(KnownAnswers, RoundedSumsOfZeroMeanGrowAsTheSquareRoot) {
  const Study study = run(sum_plan({"k=256:4096:x4"}));
  const Fit fit = fit_of(study, "rounded in f32");
  EXPECT_NEAR(fit.exponent.value, 0.5, 0.1);
  EXPECT_THAT(fit.reading, HasSubstr("square root"));
}

TEST(KnownAnswers, TruncatedSumsOfPositiveNumbersGrowInProportion) {
  NOT_SANITIZED(kOnlyNumbers);
  const Study study = run(sum_plan({"k=256:4096:x4"}, "positive"));
  const Fit fit = fit_of(study, "truncated in f32");
  EXPECT_NEAR(fit.exponent.value, 1, 0.1);
  EXPECT_THAT(fit.reading, HasSubstr("truncation"));
}

// The test above would see it: a sum that rounds has another exponent.
TEST(KnownAnswers, ARoundedSumIsNotTakenForATruncatedOne) {
  NOT_SANITIZED(kOnlyNumbers);
  const Study study = run(sum_plan({"k=256:4096:x4"}, "positive"));
  const Fit fit = fit_of(study, "rounded in f32");
  EXPECT_LT(fit.exponent.interval.high, 0.85);
  EXPECT_THAT(fit.reading, testing::Not(HasSubstr("truncation")));
}

TEST(KnownAnswers, TruncationErrsTowardZeroAndRoundingDoesNot) {
  NOT_SANITIZED(kOnlyNumbers);
  Plan plan = sum_plan({"k=4096"}, "positive");
  plan.draws = 8;
  const std::vector<Summary> summaries = summarize(run(plan));
  const Study study = begin(plan);
  const auto outward = [&](std::string_view label) {
    return *summaries[number_of(study, label)].points.front().bias_outward;
  };
  EXPECT_LT(outward("truncated in f32"), -10);
  EXPECT_LT(std::abs(outward("rounded in f32")), 10);
}

// f32 inside costs less than storing the inputs in bf16, and storing the outputs in bf16 about as
// much.
TEST(KnownAnswers, MorePrecisionThanThatOfTheInputsBuysNothing) {
  Plan plan = sum_plan({"k=64"});
  const std::vector<Summary> summaries = summarize(run(plan));
  const Study study = begin(plan);
  const PointSummary bf16 = summaries[number_of(study, "rounded in bf16")].points.front();
  EXPECT_LT(*bf16.over_input_rounding, 1);
  EXPECT_NEAR(*bf16.over_best, 1, 0.05);
  // In f32 the sum, not the storage, decides.
  EXPECT_GT(*summaries[number_of(study, "truncated in f32")].points.front().over_best, 1.5);
}

TEST(KnownAnswers, TheOnsetIsTheFirstLengthThatMisses) {
  Study study = run(sum_plan({"k=64:4096:x4"}, "positive"));
  const size_t truncated = number_of(study, "truncated in f32");
  const std::vector<Summary> all = summarize(study);
  // Between the errors at 256 and at 1024 terms.
  study.target.normwise = std::sqrt(all[truncated].points[1].largest * all[truncated].points[2].largest);
  const auto onset_of = [&](size_t contender) {
    for (const Onset& onset : onsets(study, summarize(study))) {
      if (onset.contender == contender && onset.axis == 0) return onset.value;
    }
    throw Error("there is no onset of {}", contender);
  };
  EXPECT_EQ(onset_of(truncated), 2u);
  EXPECT_EQ(onset_of(number_of(study, "rounded in bf16")), 0u);
  study.target.normwise = 1;
  EXPECT_EQ(onset_of(truncated), std::nullopt);
}

TEST(KnownAnswers, AnotherSeedGivesTheSameSentence) {
  NOT_SANITIZED(kOnlyNumbers);
  const auto sentence = [](uint64_t seed, double target) {
    Study study = run(sum_plan({"k=64,1024"}, "normal,positive", seed));
    study.target.normwise = target;
    return answer_of(study, summarize(study)).sentence;
  };
  const std::string first = sentence(0, 1e-4);
  EXPECT_EQ(first, sentence(1, 1e-4));
  EXPECT_THAT(first, HasSubstr("rounded in f32 and truncated in f32"));
  EXPECT_THAT(first, HasSubstr("rounded in bf16 misses it"));
  // A sentence that does not depend on the errors would pass the above.
  EXPECT_NE(first, sentence(0, 1e-1));
  EXPECT_THAT(sentence(0, 1e-12), HasSubstr("nothing here has"));
}

TEST(KnownAnswers, ElementsAreWholeRowsThatSpreadOverAllAxes) {
  const auto chosen = [](const Extents& shape) { return chosen_elements(shape, 1); };
  EXPECT_EQ(std::ssize(chosen({7, 5})), 35);
  EXPECT_EQ(std::ssize(chosen({3})), 3);
  EXPECT_EQ(std::ssize(chosen({})), 1);
  EXPECT_TRUE(chosen({4, 0}).empty());
  const Extents shape{2, 300, 300, 128};
  const std::vector<int64_t> elements = chosen(shape);
  EXPECT_EQ(std::ssize(elements) % 128, 0);
  EXPECT_GE(std::ssize(elements), kElements);
  EXPECT_LT(std::ssize(elements), 3 * kElements);
  EXPECT_TRUE(std::ranges::is_sorted(elements));
  std::set<int64_t> first, second, third;
  for (size_t i = 0; i < elements.size(); ++i) {
    const Extents at = index_of(elements[i], shape);
    first.insert(at[0]);
    second.insert(at[1]);
    third.insert(at[2]);
  }
  EXPECT_GE(std::min(second.size(), third.size()), 4u);
  EXPECT_GT(*third.rbegin(), 200);
}

TEST(KnownAnswers, ATargetAmidTheDrawsIsTooCloseToTell) {
  Study study = run(sum_plan({"k=256"}));
  const size_t rounded = number_of(study, "rounded in f32");
  std::vector<double> errors;
  for (const Cell& cell : study.cells) {
    if (cell.contender == rounded) errors.push_back(*cell.errors.normwise);
  }
  std::ranges::sort(errors, std::greater());
  ASSERT_EQ(draws_that_tell(study.draws), 2);
  for (const auto& [target, standing] :
       {std::pair(errors[0], Standing::kMet), std::pair(errors[1], Standing::kOpen),
        std::pair(errors[2], Standing::kMissed)}) {
    study.target.normwise = target;
    const std::vector<Summary> summaries = summarize(study);
    EXPECT_EQ(summaries[rounded].points.front().standing, standing);
    const bool is_open = answer_of(study, summaries).sentence.find("too close") != std::string::npos;
    EXPECT_EQ(is_open, standing == Standing::kOpen);
  }
}

// A path that crashes at one point.
TEST(KnownAnswers, OneBadPointTakesNoOtherAway) {
  Plan plan = sum_plan({"k=64,256"});
  plan.contenders[0].why_not[1] = "crashed: SIGSEGV";
  Study study = run(plan);
  study.target.normwise = 1;
  const std::vector<Summary> summaries = summarize(study);
  EXPECT_EQ(summaries[0].at(0)->standing, Standing::kMet);
  EXPECT_EQ(summaries[0].at(1)->standing, Standing::kAbsent);
  EXPECT_EQ(summaries[0].at(1)->why_not, "crashed: SIGSEGV");
  EXPECT_EQ(summaries[1].at(1)->standing, Standing::kMet);
  const Onset onset = onsets(study, summaries).front();
  EXPECT_EQ(onset.value, std::nullopt);
  EXPECT_EQ(onset.standing, Standing::kAbsent);
  const Answer answer = answer_of(study, summaries);
  EXPECT_THAT(answer.sentence, HasSubstr(plan.contenders[0].label() + " is not there"));
  EXPECT_THAT(answer.sentence, testing::Not(HasSubstr("too close")));
  EXPECT_THAT(answer.grounds, testing::Contains(HasSubstr("not there: crashed: SIGSEGV")));
}

// Error, time and site are those of the largest problem at which something meets the target. There
// is a larger one, at which nothing does, and one that is worse.
TEST(KnownAnswers, TheGroundsAreOfOnePoint) {
  Plan plan = sum_plan({"k=64,1024,4096"}, "positive");
  Study study = run(plan);
  const size_t truncated = number_of(study, "truncated in f32");
  for (size_t point = 0; point < 3; ++point) {
    study.times.push_back({.point = point,
                           .contender = truncated,
                           .median_ns = 1e3 * static_cast<double>(point + 1),
                           .low_ns = 1e3,
                           .high_ns = 4e3});
    study.sites.push_back(
        {.point = point, .contender = truncated, .site = point == 1 ? "sum" : "other", .alone = 1});
  }
  const auto errors = summarize(study)[truncated].points;
  study.target.normwise = std::sqrt(errors[1].largest * errors[2].largest);
  std::erase_if(study.cells, [&](const Cell& cell) { return cell.contender != truncated; });
  const std::vector<Summary> summaries = summarize(study);
  ASSERT_EQ(deciding_point(study, summaries), 1u);
  const Answer answer = answer_of(study, summaries);
  EXPECT_THAT(answer.sentence, testing::StartsWith("At k=1024 data=positive, the cheapest path with"));
  EXPECT_THAT(answer.grounds.front(),
              HasSubstr(fmt::format("is {:.3g}, 2 µs; sum makes 100 %", errors[1].largest)));
  EXPECT_THAT(answer.grounds.front(), HasSubstr("meets the target at 2 of 3 points, errs most at k=4096"));
}

// Both sums in f32 meet the target. The truncated one, the less exact, takes 1 µs.
Study timed_study(Time of_rounded) {
  Study study = run(sum_plan({"k=64"}));
  study.target.normwise = 1e-4;
  of_rounded.contender = number_of(study, "rounded in f32");
  study.times.push_back(of_rounded);
  study.times.push_back(
      {.contender = number_of(study, "truncated in f32"), .median_ns = 1e3, .low_ns = 1e3, .high_ns = 1e3});
  return study;
}

// A path that is faster than it can be wins nothing.
TEST(KnownAnswers, AnImplausibleTimeIsNoTime) {
  Study study = timed_study({.median_ns = 9e3, .low_ns = 9e3, .high_ns = 9e3});
  EXPECT_THAT(answer_of(study, summarize(study)).sentence, HasSubstr("is truncated in f32"));
  study.times.back().implausible = "1 us is less than reading takes";
  const Answer answer = answer_of(study, summarize(study));
  EXPECT_THAT(answer.sentence, HasSubstr("is rounded in f32"));
  EXPECT_THAT(answer.grounds, testing::Contains(HasSubstr("implausible: 1 us is less")));
}

TEST(KnownAnswers, OfEquallyFastPathsTheMostExactIsNamed) {
  Study study = timed_study({.median_ns = 2e3, .low_ns = 1e3, .high_ns = 3e3});
  EXPECT_THAT(answer_of(study, summarize(study)).sentence,
              HasSubstr("is rounded in f32, more exact than truncated in f32 and not slower for certain;"));
  Study equally_exact = study;
  for (Cell& cell : equally_exact.cells) cell.errors = study.cells.front().errors;
  EXPECT_THAT(answer_of(equally_exact, summarize(equally_exact)).sentence, HasSubstr("is truncated in f32;"));
  study.times.front().low_ns = 1.5e3;
  EXPECT_THAT(answer_of(study, summarize(study)).sentence, HasSubstr("is truncated in f32;"));
}

// Of equally large problems the answer is about the one that is the hardest.
TEST(KnownAnswers, TheAnswerIsAboutTheHardestPointThatSomethingMeets) {
  Study study = run(sum_plan({"a.mean_over_std=0,1000", "k=256"}, "positive,normal"));
  study.target.normwise = 1e-4;  // only bf16 misses it, but where normal numbers cancel
  const std::vector<Summary> summaries = summarize(study);
  const size_t point = deciding_point(study, summaries).value();
  const auto met_at = [&](size_t at) {
    return std::ranges::count_if(summaries,
                                 [&](const Summary& one) { return one.at(at)->standing == Standing::kMet; });
  };
  for (size_t other = 0; other < study.points.size(); ++other) {
    if (met_at(other) > 0) {
      EXPECT_LE(met_at(point), met_at(other));
    }
  }
  EXPECT_GT(met_at(point), 0);
}

TEST(KnownAnswers, AShardSaysThatItIsOne) {
  Plan plan = sum_plan({"k=64,256"});
  plan.shard = 1;
  plan.shards = 2;
  const Study study = run(plan);
  EXPECT_THAT(answer_of(study, summarize(study)).sentence, HasSubstr("This is shard 2/2 of the points."));
}

TEST(KnownAnswers, TooManyPointsAreRefused) {
  EXPECT_THROW(sum_plan({"k=1,2,2.0"}), Error);
  EXPECT_THROW(sum_plan({"a.rank=1e12"}), Error);
  EXPECT_THROW(points_of(sum_plan({"k=1:200:+1", "m=1:200:+1"}).axes), Error);
  EXPECT_EQ(points_of(sum_plan({"k=1:100:+1", "m=1:100:+1"}).axes).size(), kMostPoints);
}

TEST(KnownAnswers, AllContendersSeeTheSameDraws) {
  const Plan plan = sum_plan({"k=8"});
  const Dims dims = dims_at(plan.axes, {0, 0}, plan.dims);
  const auto values = [&](uint64_t seed, uint64_t draw) {
    return draw_inputs(*plan.op, plan.axes, {0, 0}, dims, seed, draw, nullptr);
  };
  EXPECT_EQ(values(3, 1), values(3, 1));
  EXPECT_NE(values(3, 1), values(3, 2));
  EXPECT_NE(values(3, 1), values(4, 1));
  const Study study = run(plan);
  EXPECT_EQ(std::ssize(study.cells), std::ssize(study.contenders) * plan.draws);
}

}  // namespace
}  // namespace assay::study
