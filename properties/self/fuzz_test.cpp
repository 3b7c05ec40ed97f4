// SPDX-License-Identifier: Apache-2.0
// Marks: threads
#include "properties/core/fuzz.h"

#include <set>
#include <thread>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using dynamic_conv::kD;
using dynamic_conv::kOut;
using test::cpu;

std::vector<Judged> fuzz_all(const Subject& subject, const FuzzOptions& options) {
  std::vector<Judged> all;
  fuzz(subject, cpu(), options, [&](const Judged& judged) {
    all.push_back(judged);
    return true;
  });
  return all;
}

std::vector<std::string> lines(const std::vector<Judged>& all) {
  std::vector<std::string> lines;
  for (const Judged& judged : all) lines.push_back(judged.which.to_string());
  return lines;
}

Subject production() {
  return registry().subject("dynamic_conv", "cpu");
}

class FuzzEveryOp : public testing::TestWithParam<const Op*> {};
INSTANTIATE_TEST_SUITE_P(Ops, FuzzEveryOp, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST_P(FuzzEveryOp, ProductionPathsPass) {
  const Op& op = *GetParam();
  FuzzOptions options;
  if (test::kIsSanitized) options.cases = 60;
  for (const Path& path : op.paths) {
    if (path.device != DeviceKind::kCpu) continue;
    const auto all = fuzz_all(registry().subject(op.name, path.name), options);
    EXPECT_EQ(all.size(), static_cast<size_t>(options.cases));
    int passed = 0;
    for (const Judged& judged : all) {
      const bool is_empty =
          judged.verdict.kind == VerdictKind::kSkipped && judged.verdict.reason.starts_with("empty");
      EXPECT_TRUE(is_empty || judged.verdict.kind == VerdictKind::kPass ||
                  judged.verdict.kind == VerdictKind::kUnsupported)
          << judged.which.to_string() << ": " << judged.verdict.reason;
      if (judged.verdict.kind == VerdictKind::kPass) ++passed;
    }
    // a path that refuses its cases shows nothing.
    EXPECT_GT(passed, options.cases / 2) << path.name;
  }
}

// The bounds of recipes of paths that cannot run here. The CPU path, which is at least as precise,
// stands in for them. It may be wrong where a less precise path overflows. But no bound may be too
// loose to mean anything.
TEST_P(FuzzEveryOp, BoundsOfEveryRecipeMeanSomething) {
  SLOW;
  const Op& op = *GetParam();
  const auto precise = std::ranges::find(op.paths, DeviceKind::kCpu, &Path::device);
  ASSERT_NE(precise, op.paths.end());
  const Dims dims = test::small_dims(op, 3);
  FuzzOptions options;
  options.max_shrinks = 0;
  std::set<std::string> seen;  // the oracle knows a path by its recipes alone
  for (const Path& path : op.paths) {
    if (path.device == DeviceKind::kCpu) continue;
    std::string recipes;
    for (DType dtype : path.dtypes) recipes += path.recipe(dims, dtype).to_string() + "; ";
    if (!seen.insert(recipes).second) continue;
    Path stand_in = path;
    stand_in.device = DeviceKind::kCpu;
    stand_in.run = test::untuned(precise->run);
    stand_in.tunables = {};
    for (const Judged& judged :
         fuzz_all({.op = &op, .path = &stand_in, .oracle = &registry().oracle(op.name)}, options)) {
      EXPECT_NE(judged.verdict.kind, VerdictKind::kMistrusted)
          << judged.which.to_string() << ": " << judged.verdict.reason;
    }
  }
}

TEST(Fuzz, MostlyDrawsWhatThePathServes) {
  Subject subject = production();
  Path picky = *subject.path;
  picky.unsupported = [](const Dims& dims, DType) {
    return dims[kD] % 2 == 0 ? std::nullopt : std::optional<std::string>("d is odd");
  };
  subject.path = &picky;
  const auto all = fuzz_all(subject, {});
  const auto refused = std::ranges::count_if(
      all, [](const Judged& judged) { return judged.verdict.kind == VerdictKind::kUnsupported; });
  EXPECT_LT(refused, 50);  // of 200; drawn once, about half would be refused
  EXPECT_GT(refused, 0);
}

TEST(Fuzz, SameSeedSameCases) {
  FuzzOptions options;
  options.cases = 30;
  const auto first = lines(fuzz_all(production(), options));
  EXPECT_EQ(first, lines(fuzz_all(production(), options)));
  options.seed = 1;
  EXPECT_NE(first, lines(fuzz_all(production(), options)));
}

TEST(Fuzz, MoreCasesBeginWithTheSame) {
  FuzzOptions options;
  options.cases = 10;
  const auto few = lines(fuzz_all(production(), options));
  options.cases = 20;
  auto more = lines(fuzz_all(production(), options));
  more.resize(10);
  EXPECT_EQ(few, more);
}

TEST(Fuzz, ShardsPartitionTheCases) {
  FuzzOptions options;
  options.cases = 32;
  const auto whole = lines(fuzz_all(production(), options));
  options.shards = 3;
  std::vector<std::string> merged(whole.size());
  size_t judged = 0;
  for (options.shard = 0; options.shard < options.shards; ++options.shard) {
    const auto part = lines(fuzz_all(production(), options));
    judged += part.size();
    for (size_t i = 0; i < part.size(); ++i) {
      merged[i * static_cast<size_t>(options.shards) + static_cast<size_t>(options.shard)] = part[i];
    }
  }
  EXPECT_EQ(judged, whole.size());
  EXPECT_EQ(merged, whole);
}

TEST(Fuzz, KeepsToOneDtype) {
  FuzzOptions options;
  options.cases = 20;
  options.dtype = DType::kBF16;
  for (const Judged& judged : fuzz_all(production(), options)) EXPECT_EQ(judged.which.dtype, DType::kBF16);
}

TEST(Fuzz, KeepsProblemsAsSmallAsAsked) {
  constexpr int64_t kMost = 512;
  FuzzOptions options;
  options.max_elements = kMost;
  options.cases = 100;
  for (const Op* op : registry().ops()) {
    int64_t largest = 0;
    for (const Judged& judged : fuzz_all(registry().subject(op->name, "cpu"), options)) {
      largest = std::max(largest, largest_tensor(*op, judged.which.dims));
      for (const Step& step : judged.which.state.steps) {
        if (step.kind == StepKind::kAfter) largest = std::max(largest, largest_tensor(*op, step.dims));
      }
    }
    EXPECT_LE(largest, kMost) << op->name;
    EXPECT_GT(largest, kMost / 4) << op->name;
  }
}

TEST(Fuzz, KeepsToItsBudget) {
  FuzzOptions options;
  options.budget = std::chrono::duration<double>(0);
  EXPECT_TRUE(fuzz_all(production(), options).empty());
  options.budget = std::chrono::duration<double>(0.3);
  options.cases = 1;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(fuzz_all(production(), options).size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Fuzz, StopsWhenTheReporterSaysSo) {
  int reported = 0;
  fuzz(production(), cpu(), {}, [&](const Judged&) { return ++reported < 3; });
  EXPECT_EQ(reported, 3);
}

// A path that is wrong for D >= 5 only. Its simplest reproducer has size 1 in each other dimension.
TEST(Fuzz, ShrinksToTheSimplestReproducer) {
  Path path = registry().op("dynamic_conv").path("cpu");
  path.run = [run = path.run](const Call& call) {
    run(call);
    if (call.dims[kD] < 5 || call.outputs[kOut].size() == 0) return;
    *static_cast<unsigned char*>(call.outputs[kOut].data) ^= 0xFF;
  };
  const Subject subject{&registry().op("dynamic_conv"), &path, &registry().oracle("dynamic_conv")};
  FuzzOptions options;
  options.stop_at_first_failure = true;
  const auto all = fuzz_all(subject, options);
  ASSERT_FALSE(all.empty());
  const Judged& failure = all.back();
  ASSERT_EQ(failure.verdict.kind, VerdictKind::kFail);
  ASSERT_TRUE(failure.shrunk_from);
  EXPECT_EQ(failure.which.dims, (Dims{{"b", 1}, {"t", 1}, {"d", 5}, {"w", 1}})) << failure.which.to_string();
  EXPECT_EQ(failure.which.layout, Layout::kDense);
  EXPECT_EQ(failure.which.state, State{});
  EXPECT_EQ(failure.which.seed, 0u);
  // The case line alone reproduces the failure.
  const Case again = parse_case(failure.which.to_string());
  EXPECT_EQ(judge(subject, again, cpu()).reason, failure.verdict.reason);
  for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_FALSE(is_failure(all[i].verdict.kind));
}

// A path that is wrong almost everywhere. Many of its failures shrink to the same case.
TEST(Fuzz, NamesEachFailingCaseOnce) {
  FuzzOptions options;
  options.cases = 12;
  const auto all = fuzz_all(registry().subject("dynamic_conv", "specimen.tap_dropped"), options);
  std::set<std::string> failures;
  int as_drawn = 0;
  for (const Judged& judged : all) {
    if (!is_failure(judged.verdict.kind)) continue;
    EXPECT_TRUE(failures.insert(judged.which.to_string()).second) << judged.which.to_string();
    if (!judged.shrunk_from) ++as_drawn;
    EXPECT_EQ(judge(registry().subject("dynamic_conv", "specimen.tap_dropped"), judged.which, cpu()).reason,
              judged.verdict.reason);
  }
  EXPECT_GT(failures.size(), 1u);
  EXPECT_GT(as_drawn, 0);
}

TEST(Fuzz, ShrinksOnlyAsLongAsItMay) {
  FuzzOptions options;
  options.stop_at_first_failure = true;
  options.max_shrinks = 0;
  const auto all = fuzz_all(registry().subject("dynamic_conv", "specimen.taps_reversed"), options);
  ASSERT_TRUE(is_failure(all.back().verdict.kind));
  EXPECT_FALSE(all.back().shrunk_from);
}

// Judges with a function instead of a path.
std::vector<Judged> fuzz_with(const Judging& judging, const FuzzOptions& options) {
  std::vector<Judged> all;
  fuzz(production(), judging, options, [&](const Judged& judged) {
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
    EXPECT_FALSE(*one.verdict.fails_alone && one.shrunk_from);
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

TEST(Fuzz, JudgesAPathNoFurtherAfterThreeTimeouts) {
  int judged = 0;
  const auto all = fuzz_with(
      [&](const Case& which) {
        ++judged;
        return fails_from_d5(which, VerdictKind::kTimeout);
      },
      {});
  ASSERT_TRUE(is_failure(all.back().verdict.kind));
  EXPECT_THAT(all.back().verdict.reason,
              testing::EndsWith("; after 3 timeouts the path is judged no further"));
  EXPECT_TRUE(all.back().shrunk_from);
  const auto failures =
      std::ranges::count_if(all, [](const Judged& one) { return is_failure(one.verdict.kind); });
  EXPECT_EQ(failures, 1);
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

TEST(Fuzz, CountsEveryKindOfFailure) {
  using enum VerdictKind;
  for (VerdictKind kind : {kPass, kUnsupported, kSkipped}) EXPECT_FALSE(is_failure(kind)) << name_of(kind);
  for (VerdictKind kind : {kFail, kMistrusted, kCrashed, kTimeout})
    EXPECT_TRUE(is_failure(kind)) << name_of(kind);
}

}  // namespace
}  // namespace assay
