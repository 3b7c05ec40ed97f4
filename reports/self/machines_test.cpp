// SPDX-License-Identifier: Apache-2.0
// Times of unlike machines or states say nothing.
#include "reports/gate/machines.h"

#include <gtest/gtest.h>

#include "reports/render/changes.h"
#include "reports/render/summary.h"
#include "reports/self/changed_record.h"

namespace assay {
namespace {

using namespace test;

DeviceRecord& cpu_of(Record& run) {
  return run.machine.devices.front();
}

void load(Record& run) {
  run.conditions = Conditions{
      .load = 8, .threads = 2, .disturbances = {{.kind = "load", .text = "other work is running: 2.0 of 2"}}};
}

// An idle machine of two threads, and the same with eight processes beside the run, which gets a
// third of the memory's bandwidth and a fifth of the time.
Record idle_record() {
  Record run = example_record();
  run.conditions = Conditions{.load = 0.1, .threads = 2};
  cpu_of(run).ceilings->copy_bytes_per_s = 50.6e9;
  return run;
}

Record loaded_record() {
  Record run = idle_record();
  load(run);
  cpu_of(run).ceilings->copy_bytes_per_s = 14.8e9;
  for (CaseRecord& item : run.cases) {
    if (item.device != "cpu") continue;
    if (item.perf) scale(*item.perf, 5.3);
    if (item.perf_warm) scale(*item.perf_warm, 5.3);
  }
  return run;
}

Changes between(const Record& before, const Record& after, const Limits& limits = {}) {
  return changes_between({&before, 1}, {&after, 1}, limits);
}

int64_t times_on(const Changes& changes, std::string_view device) {
  return std::ranges::count(changes.times, device, &TimeChange::device);
}

TEST(Machines, ALoadedMachineIsNoSlowerPath) {
  for (const bool is_loaded_first : {false, true}) {
    const Changes changes =
        is_loaded_first ? between(loaded_record(), idle_record()) : between(idle_record(), loaded_record());
    EXPECT_EQ(count(changes.times, Change::kWorse), 0);
    EXPECT_EQ(count(changes.times, Change::kBetter), 0);
    ASSERT_GT(times_on(changes, "cpu"), 0);
    const std::string text = render_changes(changes, false);
    EXPECT_TRUE(has(text, "other work is running: 2.0 of 2")) << text;
    EXPECT_TRUE(has(text, is_loaded_first ? "copy: 14.8 GB/s before, 50.6 GB/s after"
                                          : "copy: 50.6 GB/s before, 14.8 GB/s after"))
        << text;
    EXPECT_TRUE(has(changes_json(changes), "50.6 GB/s"));
    EXPECT_TRUE(has(render_changes_markdown(changes), "50.6 GB/s"));
    EXPECT_TRUE(has(github_annotations(changes, false), "::warning title=unclear::"));
  }
  // A time that cannot be right hides no cause.
  Record wrong = loaded_record();
  timed_case(wrong).perf->implausible = "faster than memory";
  EXPECT_TRUE(
      has(render_changes(between(idle_record(), wrong), false), "faster than memory; other work is running"));
  // Without the causes in the records it is a slowdown, as before.
  Record silent = loaded_record();
  silent.conditions = idle_record().conditions;
  silent.machine = idle_record().machine;
  EXPECT_EQ(count(between(idle_record(), silent).times, Change::kWorse),
            times_on(between(idle_record(), silent), "cpu"));
}

TEST(Machines, EachDifferenceIsAReason) {
  const auto reason = [](const std::function<void(Record&)>& change) {
    const Record before = idle_record();
    Record after = before;
    change(after);
    return unlike_machines({&before, 1}, {&after, 1}, "cpu", Limits{});
  };
  EXPECT_EQ(reason([](Record&) {}), "");
  EXPECT_TRUE(has(reason([](Record& run) { cpu_of(run).info.model = "another"; }), "another with"));
  EXPECT_TRUE(has(reason([](Record& run) { cpu_of(run).info.units = 3; }), "with 3 units after"));
  EXPECT_EQ(reason([](Record& run) { cpu_of(run).info.driver = "590"; }), "driver:  before, 590 after");
  EXPECT_EQ(reason([](Record& run) { run.conditions->threads = 1; }), "hardware threads: 2 before, 1 after");
  EXPECT_EQ(reason(load), "other work is running: 2.0 of 2 (after, not before)");
  EXPECT_EQ(reason([](Record& run) { cpu_of(run).ceilings->copy_bytes_per_s *= 1.04; }), "");
  EXPECT_EQ(reason([](Record& run) { cpu_of(run).ceilings->copy_bytes_per_s = 54e9; }),
            "copy: 50.6 GB/s before, 54.0 GB/s after");
  EXPECT_TRUE(has(reason([](Record& run) { cpu_of(run).ceilings->product_flops_per_s.begin()->second /= 2; }),
                  "products of f32: "));
  // What an older record lacks is no difference.
  EXPECT_EQ(reason([](Record& run) { run.conditions.reset(), cpu_of(run).ceilings.reset(); }), "");
}

// A cause counts if it sets all runs of one side apart from all of the other. Otherwise it widens
// the interval of its side.
TEST(Machines, OneRunOfSeveralIsNoState) {
  std::vector<Record> before(2, idle_record()), after(2, idle_record());
  for (Record& run : before) cpu_of(run).ceilings->copy_bytes_per_s = 54e9;
  EXPECT_EQ(unlike_machines(before, after, "cpu", Limits{}), "copy: 54.0 GB/s before, 50.6 GB/s after");
  EXPECT_EQ(unlike_machines(after, before, "cpu", Limits{}), "copy: 50.6 GB/s before, 54.0 GB/s after");
  EXPECT_EQ(unlike_machines(before, after, "cpu", {.slower = 0.07}), "");
  cpu_of(after[1]).ceilings->copy_bytes_per_s = 52e9;
  EXPECT_EQ(unlike_machines(before, after, "cpu", Limits{}), "");
  load(before[1]);
  EXPECT_EQ(unlike_machines(before, after, "cpu", Limits{}), "");
  load(before[0]);
  EXPECT_EQ(unlike_machines(before, after, "cpu", Limits{}),
            "other work is running: 2.0 of 2 (before, not after)");
  load(after[0]);
  EXPECT_EQ(unlike_machines(before, after, "cpu", Limits{}), "");
}

// The same path at another clock, or held down by a limit, is no slower path.
TEST(Machines, ClocksAndTheirLimitsAreStates) {
  Telemetry fast;
  fast.clock_mhz = {1970, 1980, 1980};
  fast.memory_clock_mhz = 2619;
  fast.throttle_reasons = {"gpu_idle"};
  Telemetry slow = fast;
  slow.clock_mhz->median = 1500;
  EXPECT_EQ(unlike_states({&fast}, {&slow}, 0.05), "clock: 1980 MHz before, 1500 MHz after");
  EXPECT_EQ(unlike_states({&slow}, {&fast}, 0.05), "clock: 1500 MHz before, 1980 MHz after");
  EXPECT_EQ(unlike_states({&fast}, {&slow}, 0.4), "");
  EXPECT_EQ(unlike_states({&fast, &slow}, {&slow}, 0.05), "") << "a run of one side had that clock, too";
  EXPECT_EQ(unlike_states({&fast}, {nullptr}, 0.05), "") << "an older record tells nothing";
  Telemetry capped = fast;
  capped.throttle_reasons = {"gpu_idle", "sw_power_cap"};
  EXPECT_EQ(unlike_states({&fast}, {&capped}, 0.05),
            "the clock is held down by sw_power_cap (after, not before)");
  EXPECT_EQ(unlike_states({&capped}, {&fast}, 0.05),
            "the clock is held down by sw_power_cap (before, not after)");
  EXPECT_EQ(unlike_states({&fast, &capped}, {&capped}, 0.05), "");

  Record before = idle_record(), after = before;
  for (Record* run : {&before, &after}) {
    for (CaseRecord& item : run->cases) {
      if (item.perf) item.perf->telemetry = run == &after ? slow : fast;
    }
  }
  for (CaseRecord& item : after.cases) {
    if (item.perf) scale(*item.perf, 1.3);
  }
  EXPECT_EQ(count(between(before, after).times, Change::kWorse), 0);
}

// A machine that slowed in the middle of a run shows in what was measured around its paths.
TEST(Machines, SentinelsSeeAChangeWithinARun) {
  const Record before = idle_record();
  Record after = before;
  const Ceilings first = *cpu_of(after).ceilings;
  Ceilings slow = first;
  slow.copy_bytes_per_s /= 2;
  after.sentinels = {{.op = "dynamic_conv", .path = "cpu", .device = "cpu", .before = first, .after = slow}};
  for (CaseRecord& item : after.cases) {
    if (item.device == "cpu" && item.perf) scale(*item.perf, 1.3);
  }
  const Changes changes = between(before, after);
  for (const TimeChange& time : changes.times) {
    const bool is_around = time.device == "cpu" && time.which.op == "dynamic_conv";
    EXPECT_EQ(has(time.reason, "25.3 GB/s after the times of dynamic_conv/cpu"), is_around) << time.reason;
  }
  EXPECT_EQ(count(changes.times, Change::kWorse), 3);  // the other op, in three dtypes
  // A second run, in which it did not change, is as slow: then it is the path.
  std::vector<Record> runs(2, after);
  runs.back().sentinels.front().after = first;
  EXPECT_EQ(count(changes_between({&before, 1}, runs).times, Change::kWorse), 6);
}

TEST(Machines, OneLineSaysAroundWhichPathsItChanged) {
  Record record = idle_record();
  Ceilings slow = *cpu_of(record).ceilings;
  slow.copy_bytes_per_s /= 2;
  for (const char* op : {"dynamic_conv", "mhc_post", "trimul"})
    record.sentinels.push_back({.op = op, .path = "cpu", .device = "cpu", .before = slow, .after = slow});
  const std::vector<std::string> lines = disturbed_times(record);
  ASSERT_EQ(std::ranges::count_if(lines, [](const auto& line) { return has(line, "the machine changed"); }),
            1);
  EXPECT_TRUE(lines.back().ends_with(
      "before the times of dynamic_conv/cpu; it also changed around those of mhc_post/cpu, trimul/cpu"))
      << lines.back();
}

// ---- scatter

std::vector<Record> scattered(double least, double most) {
  std::vector<Record> runs(3, idle_record());
  for (Record& run : runs) run.tool.dirty = false;
  scale(*timed_case(runs[0]).perf, least);
  scale(*timed_case(runs[2]).perf, most);
  return runs;
}

TEST(Noise, IsTheLimitOfATimeThatScattersByMore) {
  const Noise noise = noise_of(scattered(0.9, 1.35));
  const Record before = idle_record();
  Record after = before;
  scale(*timed_case(after).perf, 1.4);
  scale(*timed_case(after).perf_warm, 1.4);
  EXPECT_EQ(count(between(before, after).times, Change::kWorse), 2);
  const Limits limits{.noise = read_noise(noise_text(noise), "text")};
  EXPECT_NEAR(limits.of_time(timed_case(after).which, "cpu", Cache::kCold), 0.5, 1e-12);
  EXPECT_EQ(limits.of_time(timed_case(after).which, "cpu", Cache::kWarm), 0.05);
  const Changes changes = between(before, after, limits);
  EXPECT_EQ(count(changes.times, Change::kWorse), 1);  // the warm time did not scatter
  EXPECT_EQ(changes.times.front().limit, 0.5);
}

TEST(Noise, OfTheRunsItselfIsNeverSlower) {
  const std::vector<Record> runs = scattered(0.8, 1.3);
  const Limits limits{.slower = 0, .noise = noise_of(runs)};
  for (const Record& before : runs)
    for (const Record& after : runs)
      EXPECT_EQ(count(between(before, after, limits).times, Change::kWorse), 0);
}

TEST(Noise, IsThatOfOneProgramOnOneMachine) {
  const auto refuses = [](const std::function<void(Record&)>& change, std::string_view why) {
    std::vector<Record> runs = scattered(1, 1);
    change(runs.back());
    try {
      noise_of(runs);
    } catch (const Error& error) {
      return has(error.what(), why);
    }
    return false;
  };
  EXPECT_TRUE(refuses([](Record& run) { run.tool.git = "other"; }, "of commits 4e1e62c0a1b2c3d4 and other"));
  EXPECT_TRUE(refuses([](Record& run) { run.tool.dirty = true; }, "with changes"));
  EXPECT_TRUE(refuses([](Record& run) { run.complete = false; }, "is not complete"));
  EXPECT_TRUE(refuses([](Record& run) { cpu_of(run).info.model = "other"; }, "in one run and other with"));
  EXPECT_TRUE(refuses([](Record& run) { timed_case(run).perf.reset(); }, "2 of 3 runs timed it"));
  EXPECT_THROW(noise_of(std::vector<Record>(1, scattered(1, 1).front())), Error);
  Record other = idle_record();
  cpu_of(other).info.model = "other";
  const Noise noise = noise_of(scattered(1, 1));
  EXPECT_THROW(require_calibrated(noise, {&other, 1}), Error);
  const Record same = idle_record();
  EXPECT_NO_THROW(require_calibrated(noise, {&same, 1}));
}

// ---- trades

Changes traded(double time, double error) {
  const Record before = example_record();
  Record after = before;
  for (CaseRecord* item : cases_of(after, "dynamic_conv", "cpu", DType::kF32)) {
    if (item->perf) scale(*item->perf, time);
  }
  grow(after, error);
  return between(before, after);
}

TEST(Trades, AreAVerdictOfTheirOwn) {
  const Changes faster = traded(0.7, 2);
  EXPECT_EQ(count(faster.times, Change::kTraded), 1);
  EXPECT_EQ(count(faster.errors, Change::kTraded), 1);
  EXPECT_EQ(count(faster.errors, Change::kWorse), 0);
  EXPECT_EQ(trades(faster).faster, 1);
  EXPECT_TRUE(has(render_headline(faster), "1 traded for errors"));
  EXPECT_TRUE(has(render_changes(faster, false), "traded  dynamic_conv/cpu"));
  const Changes slower = traded(1.5, 0.5);
  EXPECT_EQ(count(slower.times, Change::kTraded), 1);
  EXPECT_EQ(count(slower.times, Change::kWorse), 0);
  EXPECT_EQ(trades(slower).slower, 1);
  // Both worse, or both better, is none.
  EXPECT_EQ(count(traded(1.5, 2).times, Change::kTraded), 0);
  EXPECT_EQ(count(traded(1.5, 2).errors, Change::kWorse), 1);
  EXPECT_EQ(count(traded(0.7, 0.5).times, Change::kTraded), 0);
}

TEST(Trades, APathThatIsAlsoSlowerElsewhereIsWorse) {
  const Record before = example_record();
  Record after = before;
  for (CaseRecord* item : cases_of(after, "dynamic_conv", "cpu", DType::kF32)) {
    if (item->perf) scale(*item->perf, 0.7);
    if (item->perf_warm) scale(*item->perf_warm, 1.5);
  }
  grow(after, 2);
  const Changes changes = between(before, after);
  EXPECT_EQ(count(changes.errors, Change::kWorse), 1);
  EXPECT_EQ(count(changes.times, Change::kWorse), 1);
}

// ---- for GitHub

TEST(Annotations, CannotBeForged) {
  const Record before = idle_record();
  Record after = before;
  CaseRecord& item = passing_case(after);
  item.verdict.kind = VerdictKind::kFail;
  item.verdict.reason = "50% wrong\n::error title=forged::text";
  const std::string lines = github_annotations(between(before, after), true);
  EXPECT_TRUE(has(lines, "50%25 wrong\\x0a::error title=forged")) << lines;
  EXPECT_FALSE(has(lines, "\n::error title=forged"));
  EXPECT_TRUE(lines.starts_with("::error title=fail%3A ")) << lines;
}

}  // namespace
}  // namespace assay
