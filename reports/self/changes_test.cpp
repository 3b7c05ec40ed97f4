// SPDX-License-Identifier: Apache-2.0
#include "reports/render/changes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>

#include "reports/render/text.h"
#include "reports/self/changed_record.h"

namespace assay {
namespace {

using namespace test;

TEST(Changes, NothingChanges) {
  const Changes changes = changes_of([](Record&) {});
  EXPECT_EQ(count(changes.times, Change::kWorse), 0);
  EXPECT_EQ(count(changes.times, Change::kBetter), 0);
  EXPECT_GT(count(changes.times, Change::kSame), 0);
  EXPECT_EQ(count(changes.errors, Change::kSame), std::ssize(changes.errors));
  EXPECT_EQ(changes.errors.size(), 12u);
  EXPECT_TRUE(changes.gone.empty());
  EXPECT_TRUE(changes.differences.empty());
  EXPECT_EQ(changes.failures.size(), 5u);  // the record has them
  EXPECT_EQ(new_failures(changes), 0);
  EXPECT_TRUE(has(render_headline(changes), "5 failures as before"));
}

TEST(Changes, FindsATimeThatGrew) {
  const Changes changes = changes_of([](Record& after) { scale(*timed_case(after).perf, 1.3); });
  ASSERT_EQ(count(changes.times, Change::kWorse), 1);
  EXPECT_EQ(changes.times.front().change, Change::kWorse);  // the worst ratio comes first
  EXPECT_NEAR(changes.times.front().ratio, 1.3, 1e-12);
  EXPECT_EQ(changes.times.front().cache, Cache::kCold);
  EXPECT_TRUE(has(render_headline(changes), "1 slower"));
  EXPECT_TRUE(has(render_changes(changes, false), "slower  dynamic_conv/cpu"));
  EXPECT_EQ(count(changes_of([](Record& after) { scale(*timed_case(after).perf, 1 / 1.3); }).times,
                  Change::kBetter),
            1);
}

TEST(Changes, AllowsWhatTheLimitsSay) {
  const auto grown = [](Record& after) {
    scale(*timed_case(after).perf, 1.3);
    grow(after, 2);
  };
  EXPECT_EQ(count(changes_of(grown, {.slower = 0.5, .more_wrong = 2}).times, Change::kWorse), 0);
  EXPECT_EQ(count(changes_of(grown, {.slower = 0.5, .more_wrong = 2}).errors, Change::kWorse), 0);
  EXPECT_EQ(count(changes_of(grown, {.slower = 0, .more_wrong = 0}).errors, Change::kWorse), 1);
}

// An interval across the limit gives no verdict, but a median beyond it is shown.
TEST(Changes, LeavesOpenWhatTheSamplesDo) {
  const auto blur = [](Record& after) {
    Perf& perf = *timed_case(after).perf;
    scale(perf, 1.3);
    perf.ci95_ns[0] = perf.median_ns / 1.3;
  };
  const Changes changes = changes_of(blur);
  EXPECT_EQ(count(changes.times, Change::kWorse), 0);
  EXPECT_EQ(changes.times.front().change, Change::kUnclear);
  EXPECT_TRUE(has(render_changes(changes, false), "unclear  dynamic_conv"));
  const Changes within = changes_of(blur, {.slower = 0.31, .more_wrong = 0.25});
  EXPECT_EQ(within.times.front().change, Change::kUnclear);
  EXPECT_FALSE(has(render_changes(within, false), "unclear  dynamic_conv"));
  EXPECT_TRUE(has(render_changes(within, true), "unclear  dynamic_conv"));
}

// The interval of one run does not contain what differs from run to run.
TEST(Changes, TakesTheWholeRangeOfSeveralRuns) {
  std::vector<Record> before(3, example_record()), after(3, example_record());
  for (Record& run : after) scale(*timed_case(run).perf, 1.3);
  EXPECT_EQ(count(changes_between(before, after).times, Change::kWorse), 1);
  scale(*timed_case(before[1]).perf, 1.4);
  const Changes changes = changes_between(before, after);
  EXPECT_EQ(count(changes.times, Change::kWorse), 0);
  EXPECT_NEAR(changes.times.front().ratio, 1.3, 1e-12);  // of the medians over the runs
}

TEST(Changes, KnowsWhatChanceDoes) {
  const Record run = example_record(1);
  const auto chance = [&](size_t before, size_t after) {
    return chance_of_slower(
        changes_between(std::vector<Record>(before, run), std::vector<Record>(after, run)));
  };
  EXPECT_DOUBLE_EQ(chance(1, 1), 1.0 / 2);
  EXPECT_DOUBLE_EQ(chance(3, 3), 1.0 / 20);
  EXPECT_DOUBLE_EQ(chance(5, 5), 1.0 / 252);
  EXPECT_DOUBLE_EQ(chance(9, 1), 1.0 / 10);
  EXPECT_TRUE(
      has(render_changes(changes_between(std::vector<Record>(3, run), std::vector<Record>(3, run)), false),
          "looks slower with a chance of at most 1 in 20\n"));
}

TEST(Changes, DoesNotTrustTimesThatCannotBeRight) {
  const Changes changes = changes_of([](Record& after) {
    Perf& perf = *timed_case(after).perf;
    scale(perf, 1.3);
    perf.implausible = "faster than memory";
  });
  EXPECT_EQ(count(changes.times, Change::kWorse), 0);
  EXPECT_EQ(changes.times.front().reason, "faster than memory");
  const Changes zero = changes_of([](Record& after) { scale(*timed_case(after).perf, 0); });
  EXPECT_EQ(count(zero.times, Change::kBetter), 0);
}

TEST(Changes, TellsNewFailuresFromOldOnes) {
  const auto fails = [](CaseRecord& item) {
    item.verdict.kind = VerdictKind::kFail;
    item.verdict.reason = "out: wrong";
  };
  const Changes changes = changes_of([&](Record& after) { fails(passing_case(after)); });
  EXPECT_EQ(new_failures(changes), 1);
  EXPECT_EQ(changes.failures.front().before, VerdictKind::kPass);  // new ones come first
  EXPECT_TRUE(has(render_changes(changes, false), "(pass before): out: wrong"));
  const Changes unknown = changes_of([&](Record& after) {
    passing_case(after).which.seed += 1;
    fails(passing_case(after));
  });
  EXPECT_EQ(new_failures(unknown), 1);
  // One run of several is enough.
  std::vector<Record> before(2, example_record()), after(2, example_record());
  fails(passing_case(after.front()));
  EXPECT_EQ(new_failures(changes_between(before, after)), 1);
}

TEST(Changes, FindsWhatIsGone) {
  const auto gone = [](const std::function<void(Record&)>& change) { return changes_of(change).gone; };
  const auto untimed = gone([](Record& after) {
    CaseRecord& item = timed_case(after);
    item.perf.reset();
    item.no_perf = "out of memory";
  });
  ASSERT_EQ(untimed.size(), 1u);
  EXPECT_EQ(untimed.front().what, "the cold times of dynamic_conv/cpu f32 on cpu at b=8 t=2048 d=2048 w=4");
  EXPECT_EQ(untimed.front().reason, "out of memory");

  const auto skipped = gone([](Record& after) {
    passing_case(after).verdict = {.kind = VerdictKind::kUnsupported, .reason = "no", .outputs = {}};
  });
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_EQ(skipped.front().reason, "unsupported: no");

  const auto path = gone([](Record& after) {
    std::erase_if(after.cases, [](const CaseRecord& item) {
      return item.which.dtype == DType::kF16 && item.device == "cpu";
    });
  });
  EXPECT_EQ(std::ranges::count(path, "25 of 25 cases of dynamic_conv/cpu f16 on cpu", &Gone::what), 1);

  const auto seeds = gone([](Record& after) {
    for (CaseRecord& item : after.cases) item.which.seed += 1;
  });
  EXPECT_EQ(std::ranges::count(seeds, "25 of 25 cases of dynamic_conv/cpu f32 on cpu", &Gone::what), 1);
  EXPECT_TRUE(std::ranges::none_of(seeds, [](const Gone& one) { return has(one.what, "times"); }));

  const auto device = gone([](Record& after) { after.machine.devices.back().info.model = "NVIDIA H100"; });
  ASSERT_EQ(device.size(), 1u);
  EXPECT_EQ(device.front().what, "the times on cuda:0");
  EXPECT_TRUE(has(device.front().reason, "NVIDIA H100"));
}

TEST(Changes, MissesSomeOfTheCases) {
  const auto one = changes_of([](Record& after) { after.cases.erase(after.cases.begin()); }).gone;
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one.front().what, "1 of 25 cases of dynamic_conv/cpu f32 on cpu");
  const auto output = changes_of([](Record& after) { passing_case(after).verdict.outputs.clear(); }).gone;
  ASSERT_EQ(output.size(), 1u);
  EXPECT_EQ(output.front().reason, "fewer elements compared");
}

// Any run of a side may be the one that lacks something.
TEST(Changes, MissesWhatOneOfSeveralRunsLacks) {
  for (size_t which : {0u, 1u, 2u}) {
    const std::vector<Record> before(3, example_record());
    std::vector<Record> after = before;
    timed_case(after[which]).perf.reset();
    passing_case(after[which]).verdict = {
        .kind = VerdictKind::kSkipped, .reason = "no memory", .outputs = {}};
    const Changes changes = changes_between(before, after);
    ASSERT_EQ(changes.gone.size(), 2u);
    EXPECT_EQ(changes.gone.front().reason, "in 2 of 3 runs");
    EXPECT_EQ(changes.gone.back().reason, "skipped: no memory");
    EXPECT_TRUE(changes_between(after, before).gone.empty());
  }
}

// A failure is new if it occurred in one run before and occurs in all now, or if it differs. A fix
// is no failure.
TEST(Changes, OldFailuresHideNoNewOnes) {
  const auto fail = [](Record& run, VerdictKind kind) { passing_case(run).verdict.kind = kind; };
  std::vector<Record> before(2, example_record()), after(2, example_record());
  fail(before.front(), VerdictKind::kFail);
  for (Record& run : after) fail(run, VerdictKind::kFail);
  EXPECT_EQ(new_failures(changes_between(before, after)), 1);
  fail(before.back(), VerdictKind::kFail);
  EXPECT_EQ(new_failures(changes_between(before, after)), 0);
  const Record mistrusted = [&] {
    Record run = example_record();
    fail(run, VerdictKind::kMistrusted);
    return run;
  }();
  EXPECT_EQ(new_failures(changes_between({&mistrusted, 1}, after)), 1);
  const Record fixed = example_record();
  const Changes better = changes_between(before, {&fixed, 1});
  EXPECT_EQ(new_failures(better), 0);
  EXPECT_TRUE(better.gone.empty());
}

TEST(Changes, TakesNoNumberForAnotherOne) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Changes errors =
      changes_of([&](Record& after) { passing_case(after).verdict.outputs.front().conformity->rms = nan; });
  EXPECT_EQ(count(errors.errors, Change::kWorse), 1);
  for (double median : {nan, std::numeric_limits<double>::infinity(), 1e3}) {
    const Changes times = changes_of([&](Record& after) { timed_case(after).perf->median_ns = median; });
    EXPECT_EQ(std::ranges::count_if(times.times,
                                    [](const TimeChange& time) { return has(time.reason, "ns between"); }),
              1);
    EXPECT_TRUE(Json::accept(changes_json(times)));
  }
}

TEST(Changes, HasLimitsThatAreSymmetric) {
  const auto exact = [](double factor) {
    return [=](Record& after) {
      for (double* end : {&timed_case(after).perf->ci95_ns[0], &timed_case(after).perf->ci95_ns[1]})
        *end = timed_case(after).perf->median_ns;
      scale(*timed_case(after).perf, factor);
    };
  };
  const Limits wide{.slower = 0.2, .more_wrong = 0.25};
  EXPECT_EQ(count(changes_of(exact(1.3), wide).times, Change::kWorse), 1);
  EXPECT_EQ(count(changes_of(exact(1 / 1.3), wide).times, Change::kBetter), 1);
  EXPECT_EQ(count(changes_of(exact(1.15), wide).times, Change::kWorse), 0);
  EXPECT_EQ(count(changes_of(exact(1 / 1.15), wide).times, Change::kBetter), 0);
  const auto across = [&](Record& after) {
    exact(0.8)(after);
    timed_case(after).perf->ci95_ns[1] *= 1.1;
  };
  EXPECT_EQ(count(changes_of(across, wide).times, Change::kBetter), 0);
}

TEST(Changes, ComparesTimesOfEqualDevicesOnly) {
  const auto units = changes_of([](Record& after) { after.machine.devices.back().info.units = 114; });
  ASSERT_EQ(units.gone.size(), 1u);
  EXPECT_TRUE(has(units.gone.front().reason, "132 units before"));
  const Changes other = changes_of([](Record& after) { after.machine.devices.back().info.model = "H100"; });
  EXPECT_GT(std::ranges::count(other.times, "cuda:0", &TimeChange::device), 0);
  for (const TimeChange& time : other.times) {
    EXPECT_TRUE(time.device == "cuda:0" ? time.change == Change::kUnclear : time.reason.empty())
        << time.reason;
  }
  EXPECT_TRUE(
      has(render_changes(other, false), "unclear on cuda:0: NVIDIA H200 with 132 units before, H100"));
  // A device that timed nothing before does not matter.
  const auto untimed = [](Record run) {
    for (CaseRecord& item : run.cases) item.perf.reset(), item.perf_warm.reset();
    return run;
  };
  const Record before = untimed(example_record());
  Record after = before;
  after.machine.devices.back().info.model = "NVIDIA H100";
  EXPECT_TRUE(changes_between({&before, 1}, {&after, 1}).gone.empty());
  // A side with several models does not count as one of them.
  std::vector<Record> mixed(2, example_record());
  mixed.back().machine.devices.back().info.model = "NVIDIA H100";
  const Record one = example_record();
  EXPECT_EQ(changes_between(mixed, {&one, 1}).gone.size(), 1u);
}

TEST(Changes, NeedsTwoSides) {
  const Record record;
  EXPECT_THROW(changes_between({}, {&record, 1}), Error);
}

TEST(Changes, CountsWhatIsNew) {
  const Changes changes = changes_of([](Record& after) {
    after.cases.push_back(timed_case(after));
    after.cases.back().which.dims.set("t", 4096);
  });
  EXPECT_EQ(changes.added, 2);  // cold and warm
  EXPECT_TRUE(changes.gone.empty());
}

TEST(Changes, NamesWhatElseDiffers) {
  const Changes changes = changes_of([](Record& after) {
    after.tool.git = "5f2e62c0a1b2c3d4";
    after.tool.dirty = false;
    after.machine.devices.back().info.driver = "590.1";
    after.complete = false;
  });
  EXPECT_EQ(changes.differences, (std::vector<std::string>{"commit: 4e1e62c0a1 with changes -> 5f2e62c0a1",
                                                           "driver: cuda:0 580.159.04 -> cuda:0 590.1"}));
  ASSERT_EQ(changes.gone.size(), 1u);  // the rest of an interrupted run
  EXPECT_EQ(changes.gone.front().what, "the rest of the run of 2026-01-15T09:30:00Z");
}

TEST(Changes, CountsWhatDoesNotFit) {
  const Changes changes = changes_of([](Record& after) {
    for (CaseRecord& item : after.cases) {
      if (item.perf) continue;
      item.verdict = {.kind = VerdictKind::kSkipped, .reason = "no memory", .outputs = {}};
    }
  });
  ASSERT_GT(changes.gone.size(), 20u);
  EXPECT_EQ(count(render_changes(changes, false), "\ngone  "), 20u);
  EXPECT_TRUE(
      has(render_changes(changes, false), fmt::format("and {} more: --all", changes.gone.size() - 20)));
  EXPECT_EQ(count(render_changes(changes, true), "\ngone  "), changes.gone.size());
}

}  // namespace
}  // namespace assay
