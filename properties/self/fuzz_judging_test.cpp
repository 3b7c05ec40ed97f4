// SPDX-License-Identifier: Apache-2.0
// What fuzz() does with the verdicts. A function gives them instead of a path.
#include <algorithm>
#include <thread>

#include "properties/core/conformity.h"
#include "properties/core/fuzz.h"
#include "properties/self/support.h"

namespace assay {
namespace {

std::vector<Judged> fuzz_with(const Judging& judging, const FuzzOptions& options) {
  std::vector<Judged> all;
  fuzz(registry().subject("dynamic_conv", "cpu"), judging, options, [&](const Judged& judged) {
    all.push_back(judged);
    return true;
  });
  return all;
}

Verdict fails_from_d5(const Case& which, VerdictKind kind) {
  return {.kind = which.dims.at("d") >= 5 ? kind : VerdictKind::kPass, .reason = "so it is", .outputs = {}};
}

TEST(Fuzz, ShrinksACrashOnlyWhereItSpoilsNothing) {
  FuzzOptions options;
  options.stop_at_first_failure = true;
  for (bool shrinks : {false, true}) {
    options.shrinks_crashes = shrinks;
    const auto all =
        fuzz_with([](const Case& which) { return fails_from_d5(which, VerdictKind::kCrashed); }, options);
    EXPECT_EQ(all.back().shrunk_from.has_value(), shrinks);
    if (!shrinks) continue;
    EXPECT_EQ(all.back().which.dims, (Dims{{"b", 1}, {"t", 1}, {"d", 5}, {"w", 1}}));
  }
}

TEST(Fuzz, DoesNotShrinkWhatNeedsHistoryNorToIt) {
  FuzzOptions options;
  options.stop_at_first_failure = options.shrinks_crashes = true;
  const auto needs_history = [](const Case& which) {
    Verdict verdict = fails_from_d5(which, VerdictKind::kCrashed);
    verdict.fails_alone = false;
    return verdict;
  };
  EXPECT_FALSE(fuzz_with(needs_history, options).back().shrunk_from);
  const auto fails_alone_from_d7 = [](const Case& which) {
    Verdict verdict = fails_from_d5(which, VerdictKind::kCrashed);
    if (verdict.kind == VerdictKind::kCrashed) verdict.fails_alone = which.dims.at("d") >= 7;
    return verdict;
  };
  options.seed = 1;
  const auto all = fuzz_with(fails_alone_from_d7, options);
  ASSERT_TRUE(all.back().shrunk_from) << all.back().which.to_string();
  EXPECT_EQ(all.back().which.dims.at("d"), 7);
}

TEST(Fuzz, SaysWhichCaseFollowsAndJudgesTheSameCases) {
  FuzzOptions options;
  options.cases = 30;
  std::vector<Case> judged, expected;
  const Judging judging = [&](const Case& which) {
    judged.push_back(which);
    return fails_from_d5(which, VerdictKind::kPass);
  };
  fuzz_with(judging, options);
  const std::vector<Case> usual = std::exchange(judged, {});
  options.expects = [&](const Case& following) {
    EXPECT_EQ(expected.size(), judged.size());  // it comes first
    expected.push_back(following);
  };
  fuzz_with(judging, options);
  EXPECT_EQ(judged, usual);
  EXPECT_EQ(expected, std::vector(usual.begin() + 1, usual.end()));
}

TEST(Fuzz, JudgesAPathNoFurtherAfterSoManyFailures) {
  const Judging judging = [](const Case& which) { return fails_from_d5(which, VerdictKind::kFail); };
  const auto failures = [](const std::vector<Judged>& all) {
    return std::ranges::count_if(all, [](const Judged& one) { return is_failure(one.verdict.kind); });
  };
  FuzzOptions options;
  const auto unlimited = fuzz_with(judging, options);
  ASSERT_GT(failures(unlimited), 3);
  options.max_failures = 3;
  const auto limited = fuzz_with(judging, options);
  EXPECT_EQ(failures(limited), 3);
  EXPECT_EQ(limited.back().verdict.reason, "so it is; after 3 failures the path is judged no further");
  EXPECT_FALSE(fuzz_with(judging, options).front().verdict.reason.ends_with("further"));
  // What an earlier run judged counts, too.
  options.recall = [&](const Case& drawn) -> std::optional<Judged> {
    for (const Judged& known : unlimited)
      if (known.shrunk_from.value_or(known.which) == drawn) return known;
    return std::nullopt;
  };
  EXPECT_TRUE(fuzz_with(judging, options).empty());
  options.max_failures = failures(unlimited) + 1;
  EXPECT_TRUE(fuzz_with(judging, options).empty());
}

TEST(Fuzz, JudgesTheSmallestOfEachKindOnceMoreAlone) {
  std::vector<Case> asked;
  FuzzOptions options;
  options.alone = [&](const Case& which) {
    asked.push_back(which);
    return fails_from_d5(which, VerdictKind::kFail);
  };
  const auto all =
      fuzz_with([](const Case& which) { return fails_from_d5(which, VerdictKind::kFail); }, options);
  ASSERT_FALSE(asked.empty());
  EXPECT_LT(asked.size(), 6u);
  for (size_t i = 1; i < asked.size(); ++i) EXPECT_TRUE(is_smaller(asked[i], asked[i - 1]));
  for (const Judged& one : all) {
    const bool was_asked = std::ranges::count(asked, one.which) != 0;
    EXPECT_EQ(one.verdict.fails_alone.has_value(), was_asked);
    if (was_asked) {
      EXPECT_EQ(one.verdict.reason, "so it is; it fails alone in a fresh process");
    }
  }
}

// The path fails in a process with a history from d = 5 on, alone only from d = 7 on.
TEST(Fuzz, ReportsAsItWasDrawnWhatWasShrunkTooFar) {
  FuzzOptions options;
  options.alone = [](const Case& which) -> Verdict {
    return {.kind = which.dims.at("d") >= 7 ? VerdictKind::kFail : VerdictKind::kPass,
            .reason = "",
            .outputs = {}};
  };
  const Judging judging = [](const Case& which) { return fails_from_d5(which, VerdictKind::kFail); };
  int64_t alone = 0;
  for (const Judged& one : fuzz_with(judging, options)) {
    if (!one.verdict.fails_alone) continue;
    EXPECT_EQ(*one.verdict.fails_alone, one.which.dims.at("d") >= 7);
    alone += *one.verdict.fails_alone ? 1 : 0;
    EXPECT_FALSE(one.shrunk_from);
  }
  EXPECT_GT(alone, 0);
  options.alone = [](const Case&) -> Verdict {
    return {.kind = VerdictKind::kPass, .reason = "", .outputs = {}};
  };
  options.max_failures = 1;
  EXPECT_EQ(fuzz_with(judging, options).back().verdict.reason,
            "so it is; it needs what ran before; after 1 failure the path is judged no further");
  options.alone = [](const Case&) -> std::optional<Verdict> { return std::nullopt; };
  options.max_failures.reset();
  EXPECT_FALSE(fuzz_with(judging, options).back().verdict.fails_alone);
}

TEST(Fuzz, MistrustsAPathOfWhichNoCaseTells) {
  FuzzOptions options;
  options.cases = 20;
  options.max_shrinks = 0;
  // The places of the mistrusted ones, if the last of these verdicts is that on all further cases.
  const auto mistrusted = [&](const std::vector<VerdictKind>& kinds) {
    size_t judged = 0;
    const Judging judging = [&](const Case&) -> Verdict {
      return {.kind = kinds[std::min(judged++, kinds.size() - 1)], .reason = "", .outputs = {}};
    };
    const auto all = fuzz_with(judging, options);
    std::vector<size_t> places;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].verdict.kind == VerdictKind::kMistrusted) places.push_back(i);
    }
    return places;
  };
  using enum VerdictKind;
  EXPECT_EQ(mistrusted({kUninformative}), std::vector<size_t>{7});
  EXPECT_EQ(mistrusted({kSkipped, kUninformative}), std::vector<size_t>{8});
  EXPECT_EQ(mistrusted({kPass, kUninformative}), std::vector<size_t>());
}

TEST(Fuzz, FailsAPathThatIsTheFarthestOfRightPathsTooOften) {
  FuzzOptions options;
  options.cases = 400;
  const auto failures = [&](const std::function<bool(const Case&)>& is_farthest) {
    const auto all = fuzz_with(
        [&](const Case& which) -> Verdict {
          const double rms = is_farthest(which) ? 1.8 : 0.5;
          Verdict verdict{.kind = VerdictKind::kPass, .reason = "", .outputs = {}};
          for (const bool errs : {false, true}) {
            verdict.outputs.push_back({.name = errs ? "dw" : "dx", .comparison = {}});
            verdict.outputs.back().conformity = {.rms = errs ? rms : 0.0, .predicted = 1, .allowed = 2};
          }
          return verdict;
        },
        options);
    std::vector<Judged> failed;
    for (const Judged& judged : all) {
      if (judged.verdict.kind != VerdictKind::kPass) failed.push_back(judged);
    }
    return failed;
  };
  EXPECT_TRUE(failures([](const Case& which) { return which.seed % 5 == 0; }).empty());
  EXPECT_TRUE(failures([](const Case& which) { return !spreads_errors(which); }).empty());
  const auto always = failures([](const Case&) { return true; });
  ASSERT_EQ(always.size(), 1U);  // it is said once
  EXPECT_EQ(
      always.front().verdict.reason,
      "dw is farther from what the recipe computes than each of 4 right paths in 15 of 15 cases; a right "
      "path is in at most 14; it needs what ran before");
  EXPECT_FALSE(always.front().shrunk_from);
  EXPECT_EQ(failures([](const Case& which) { return which.seed % 4 != 0; }).size(), 1U);
}

TEST(Fuzz, JudgesAPathNoFurtherAfterThreeTimeouts) {
  int judged = 0;
  const auto all = fuzz_with(
      [&](const Case& which) {
        return fails_from_d5(which, ++judged == 1 ? VerdictKind::kPass : VerdictKind::kTimeout);
      },
      {});
  ASSERT_TRUE(is_failure(all.back().verdict.kind));
  EXPECT_THAT(all.back().verdict.reason,
              testing::EndsWith("; after 3 timeouts the path is judged no further"));
  EXPECT_TRUE(all.back().shrunk_from);
  const auto failures =
      std::ranges::count_if(all, [](const Judged& one) { return is_failure(one.verdict.kind); });
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(all.back().timeouts, 3);
  EXPECT_EQ(all.front().timeouts, 0);
  EXPECT_GT(judged, 3);
}

// Two of the three timeouts were seen before the run was interrupted; or all of them.
TEST(Fuzz, CountsTimeoutsOfTheRunThatIsResumed) {
  FuzzOptions options;
  options.timeouts = 2;
  const Judging judging = [](const Case& which) { return fails_from_d5(which, VerdictKind::kTimeout); };
  const auto all = fuzz_with(judging, options);
  EXPECT_EQ(all.back().timeouts, 1);
  EXPECT_FALSE(all.back().shrunk_from);
  EXPECT_THAT(all.back().verdict.reason,
              testing::EndsWith("; after 3 timeouts the path is judged no further"));
  options.timeouts = 3;
  EXPECT_TRUE(fuzz_with(judging, options).empty());
}

TEST(Fuzz, TrustsAPathForWhatWasJudgedBeforeItWasInterrupted) {
  using enum VerdictKind;
  constexpr size_t kBefore = 7;
  FuzzOptions options;
  options.cases = 20;
  options.max_shrinks = 0;
  // The places of the mistrusted ones. The earlier run gave the first of these verdicts once, then
  // the other. No further case can tell anything.
  const auto mistrusted = [&](VerdictKind first, VerdictKind others) {
    size_t recalled = 0;
    options.recall = [&](const Case& which) -> std::optional<Judged> {
      if (recalled == kBefore) return std::nullopt;
      const VerdictKind kind = recalled++ == 0 ? first : others;
      return Judged{
          .which = which, .verdict = {.kind = kind, .reason = "", .outputs = {}}, .shrunk_from = {}};
    };
    const auto all = fuzz_with(
        [](const Case&) -> Verdict { return {.kind = kUninformative, .reason = "", .outputs = {}}; },
        options);
    std::vector<size_t> places;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i].verdict.kind == kMistrusted) places.push_back(i);
    }
    return places;
  };
  EXPECT_EQ(mistrusted(kPass, kUninformative), std::vector<size_t>());
  EXPECT_EQ(mistrusted(kUninformative, kUninformative), std::vector<size_t>{0});
  EXPECT_EQ(mistrusted(kSkipped, kUninformative), std::vector<size_t>{1});
}

TEST(Fuzz, ShrinkingKeepsToTheBudget) {
  FuzzOptions options;
  options.budget = std::chrono::duration<double>(0.2);
  options.max_timeouts = 1000;
  const auto start = std::chrono::steady_clock::now();
  fuzz_with(
      [](const Case&) -> Verdict {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        return {.kind = VerdictKind::kTimeout, .reason = "", .outputs = {}};
      },
      options);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Fuzz, EndsWhereTheJudgeGivesUp) {
  int judged = 0;
  const auto all = fuzz_with(
      [&](const Case& which) {
        return ++judged == 4 ? std::nullopt : std::optional(fails_from_d5(which, VerdictKind::kPass));
      },
      {});
  EXPECT_EQ(all.size(), 3u);
  judged = 0;
  const auto in_shrinking = fuzz_with(
      [&](const Case&) {
        return ++judged == 4
                   ? std::nullopt
                   : std::optional<Verdict>({.kind = VerdictKind::kFail, .reason = "", .outputs = {}});
      },
      {});
  ASSERT_EQ(in_shrinking.size(), 1u);  // with the simplest case that was found
  EXPECT_TRUE(in_shrinking[0].shrunk_from);
}

}  // namespace
}  // namespace assay
