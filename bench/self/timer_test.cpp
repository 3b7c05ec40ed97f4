// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// The timer judges what it times. Each rule is shown red on a path that breaks it, and none on
// honest paths.
#include "bench/core/timer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <set>

#include "bench/core/measure.h"
#include "properties/core/judge.h"
#include "properties/core/registry.h"
#include "properties/self/marks.h"

namespace assay {
namespace {

constexpr uint64_t kSeed = 17;

Case small_case(std::string_view op, std::string_view path, const Dims& dims) {
  return {.op = std::string(op), .path = std::string(path), .dims = dims};
}

const Dims kSmall{{"b", 2}, {"t", 64}, {"d", 64}, {"w", 4}};

TEST(PlanDraws, NoDrawFollowsItselfAndNewOnesComeAllAlong) {
  for (const size_t samples : {size_t{15}, size_t{16}, size_t{40}, size_t{300}}) {
    std::set<size_t> places;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::vector<size_t> plan = plan_draws(samples, seed);
      ASSERT_EQ(plan.size(), samples);
      EXPECT_EQ(plan.front(), 1u);
      for (size_t i = 1; i < samples; ++i) EXPECT_NE(plan[i], plan[i - 1]);
      for (size_t draw = 1; draw < kDraws; ++draw) {
        const auto place = static_cast<size_t>(std::ranges::find(plan, draw) - plan.begin());
        EXPECT_GE(place, (draw - 1) * samples / (kDraws - 1)) << samples << " samples, draw " << draw;
        EXPECT_LT(place, draw * samples / (kDraws - 1)) << samples << " samples, draw " << draw;
        if (draw == 3) places.insert(place);
      }
    }
    if (samples < 40) continue;
    EXPECT_GT(places.size(), 1u) << "nobody can tell where a new draw comes";
  }
}

// The elements of each input move by one distance, the weights stay, and draw 0 comes back.
TEST(Draws, MoveTheElementsOfAllInputsButWeights) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("cheri_conv_norm", "cpu");
  const Case which = small_case("cheri_conv_norm", "cpu", {{"n", 8}, {"l", 99}, {"c", 8}, {"dilation", 1}});
  Problem problem(*subject.op, *subject.path, which, *cpu);
  problem.draw_inputs(3);
  const TensorBytes judged = problem.inputs();
  Draws draws(problem, kSeed);
  EXPECT_EQ(problem.inputs(), judged);
  std::set<std::vector<std::byte>> seen{judged[0]};
  for (size_t draw = 1; draw <= kOtherData; ++draw) {
    draws.use(draw);
    const TensorBytes inputs = problem.inputs();
    EXPECT_TRUE(seen.insert(inputs[0]).second) << draw;
    EXPECT_EQ(inputs[1], judged[1]) << "weights";
    std::vector<std::byte> doubled = judged[0];
    doubled.insert(doubled.end(), judged[0].begin(), judged[0].end());
    const auto moved = std::ranges::search(doubled, inputs[0]);
    EXPECT_EQ(!moved.empty(), draw != kOtherData) << draw;
    EXPECT_EQ((moved.begin() - doubled.begin()) % 4, 0);
  }
  draws.use(0);
  EXPECT_EQ(problem.inputs(), judged);
}

// Any size and any place: the CPU takes eight bytes at a time.
TEST(CpuDevice, HashesAndFlipsEachByte) {
  const auto cpu = open_cpu();
  std::vector<unsigned char> bytes(70);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  const std::vector<unsigned char> before = bytes;
  for (int64_t first = 0; first < 9; ++first) {
    for (int64_t count = 0; count < 40; ++count) {
      const MemorySpan span{bytes.data() + first, count};
      const uint64_t hash = cpu->hash(span);
      for (int64_t i = first; i < first + count; ++i) {
        bytes[static_cast<size_t>(i)] ^= 0x80;
        EXPECT_NE(cpu->hash(span), hash) << "byte " << i << " of " << count;
        bytes[static_cast<size_t>(i)] ^= 0x80;
      }
      cpu->flip(span);
      for (int64_t i = 0; i < std::ssize(bytes); ++i) {
        const bool is_inside = i >= first && i < first + count;
        ASSERT_EQ(bytes[static_cast<size_t>(i)], before[static_cast<size_t>(i)] ^ (is_inside ? 1 : 0));
      }
      cpu->flip(span);
      EXPECT_EQ(cpu->hash(span), hash);
    }
  }
}

// As many elements as stand together change, in all inputs but weights, and only if they are to.
TEST(Draws, VaryAFewElements) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("cheri_conv_norm", "cpu");
  const Case which = small_case("cheri_conv_norm", "cpu", {{"n", 8}, {"l", 99}, {"c", 8}, {"dilation", 1}});
  Problem problem(*subject.op, *subject.path, which, *cpu);
  problem.draw_inputs(3);
  Draws draws(problem, kSeed);
  for (size_t draw = 0; draw < kDraws; ++draw) {
    draws.use(draw);
    const TensorBytes before = problem.inputs();
    draws.vary(draw, false);
    EXPECT_EQ(problem.inputs(), before) << draw;
    draws.vary(draw);
    const TensorBytes varied = problem.inputs();
    EXPECT_EQ(varied[1], before[1]) << "weights";
    size_t changed = 0;
    for (size_t i = 0; i < before[0].size(); i += 4)
      changed += std::memcmp(&before[0][i], &varied[0][i], 4) != 0 ? 1 : 0;
    EXPECT_GE(changed, 1u) << draw;
    EXPECT_LE(changed, 16u) << draw;
    draws.use(draw);
    EXPECT_EQ(problem.inputs(), before) << draw;
  }
}

TEST(Draws, AreThoseOfAnotherProcess) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("mhc_post", "cpu");
  const Case which = small_case("mhc_post", "cpu", {{"n", 3}, {"hc", 2}, {"h", 5}});
  Problem one(*subject.op, *subject.path, which, *cpu), other(*subject.op, *subject.path, which, *cpu);
  other.only_hold_inputs();
  for (Problem* problem : {&one, &other}) problem->draw_inputs(3);
  Draws draws(one, kSeed);
  size_t held = 0;
  for (const size_t draw : {size_t{2}, size_t{0}, size_t{5}, size_t{1}, kOtherData}) {
    draws.use(draw);
    change_draw(other, kSeed, std::exchange(held, draw), draw);
    EXPECT_EQ(one.inputs(), other.inputs()) << draw;
  }
}

TEST(Timer, GoesOnForAsLongAsAsked) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("mhc_post", "cpu");
  const Case which = small_case("mhc_post", "cpu", {{"n", 1}, {"hc", 2}, {"h", 8}});
  Problem problem(*subject.op, *subject.path, which, *cpu);
  ASSERT_EQ(judge(subject, problem).kind, VerdictKind::kPass);
  EXPECT_LE(Timer(subject, problem, kSeed).take(Cache::kWarm).ns.size(), 300u);
  // One call tells how many there are to be; on a busy machine it may take long.
  size_t most = 0;
  for (int i = 0; i < 3 && most <= 300; ++i)
    most = std::max(most, Timer(subject, problem, kSeed, 1).take(Cache::kWarm).ns.size());
  EXPECT_GT(most, 300u);
}

TEST(Timer, KeepsAnswersToFourDrawsForTheOracle) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("dynamic_conv", "cpu");
  Problem problem(*subject.op, *subject.path, small_case("dynamic_conv", "cpu", kSmall), *cpu);
  ASSERT_EQ(judge(subject, problem).kind, VerdictKind::kPass);
  Timer timer(subject, problem, kSeed);
  timer.take(Cache::kCold);
  std::multiset<size_t> draws;
  for (const TimedAnswer& answer : timer.take_answers()) draws.insert(answer.draw);
  EXPECT_EQ(draws.size(), 5u);
  EXPECT_EQ(draws.count(kOtherData), 1u);
  EXPECT_EQ(std::set(draws.begin(), draws.end()).size(), 5u) << "each of another draw";
  timer.take(Cache::kWarm);
  EXPECT_TRUE(timer.take_answers().empty()) << "equal inputs give equal bits";
}

// A call of the timed shape that finds no memory beside the other one ends that, and no time.
TEST(Timer, TimesNoOtherShapeWithoutMemoryForBoth) {
  const auto cpu = open_cpu();
  Subject subject = registry().subject("dynamic_conv", "cpu");
  for (const bool suffices : {true, false}) {
    bool was_other = false;
    Path path = *subject.path;
    path.run = [&, run = path.run](const Call& call) {
      const bool is_other = call.dims.at("t") != kSmall.at("t");
      if (!std::exchange(was_other, is_other) || is_other || suffices) return run(call);
      throw OutOfMemory("no memory");
    };
    Subject counted = subject;
    counted.path = &path;
    Problem problem(*counted.op, path, small_case("dynamic_conv", "cpu", kSmall), *cpu);
    ASSERT_EQ(judge(counted, problem).kind, VerdictKind::kPass);
    Timer timer(counted, problem, kSeed);
    const Samples samples = timer.take(Cache::kCold);
    EXPECT_EQ(samples.near.has_value(), suffices);
    EXPECT_GE(samples.ns.size(), 15u);
    EXPECT_EQ(samples.fault, "");
  }
}

// dw is a sum over all examples.
TEST(Timer, AsksTheOracleForTotalsOfOneAnswerAndOfOtherData) {
  NOT_UNDER_THREAD_SANITIZER("one thread judges");
  const Case which = parse_case("cheri_conv_norm_grad/cpu/f32/n=2/l=32/c=32/dilation=1");
  const Op& op = registry().op(which.op);
  const Subject subject{&op, &op.path("cpu"), &registry().oracle(which.op)};
  const auto cpu = open_cpu();
  uint64_t seed = 3;
  const auto be_wrong = [](std::vector<std::byte>& bytes) { std::ranges::fill(bytes, std::byte{0x40}); };
  const auto be_coarse = [](std::vector<std::byte>& bytes) {  // by 32 units of the last place
    for (size_t i = 0; i < bytes.size(); i += 4) bytes[i] ^= std::byte{0x20};
  };
  // What is wrong if an output of one answer is spoilt.
  const auto fault_with = [&](size_t spoilt, size_t output,
                              const std::function<void(std::vector<std::byte>&)>& spoil) {
    Problem problem(op, *subject.path, which, *cpu);
    problem.draw_inputs(which.seed);
    std::vector<TimedAnswer> answers;
    size_t draw = 0;
    for (const size_t next : {size_t{1}, size_t{2}, size_t{5}, kOtherData}) {
      change_draw(problem, seed, std::exchange(draw, next), next);
      problem.run();
      answers.push_back({.draw = next, .outputs = problem.outputs()});
      if (next == spoilt) spoil(answers.back().outputs[output]);
    }
    const auto wrong = find_wrong_answer(subject, which, subject.path->recipe(which.dims, which.dtype), seed,
                                         std::move(answers));
    return wrong ? wrong->reason : "";
  };
  const size_t kDx = 0, kDw = 1;
  for (const size_t draw : {size_t{1}, size_t{2}, size_t{5}, kOtherData})
    EXPECT_THAT(fault_with(draw, kDx, be_wrong), testing::HasSubstr("of dx are wrong")) << draw;
  EXPECT_THAT(fault_with(kOtherData, kDw, be_wrong), testing::HasSubstr("of dw are wrong"));
  EXPECT_EQ(fault_with(kOtherData, kDw, be_coarse), "") << "within their bounds";
  std::set<size_t> asked;
  for (seed = 0; seed < 40; ++seed) {
    int wrong = 0;
    for (const size_t draw : {size_t{1}, size_t{2}, size_t{5}}) {
      const std::string fault = fault_with(draw, kDw, be_coarse);
      if (fault.empty()) continue;
      EXPECT_THAT(fault, testing::HasSubstr("dw differs from what the recipe computes by"));
      asked.insert(draw);
      ++wrong;
    }
    EXPECT_EQ(wrong, 1);
  }
  EXPECT_EQ(asked, (std::set<size_t>{1, 2, 5}));
}

// What judging and timing a path says against it; empty if nothing. An impossible time comes last.
std::string fault_of(const Subject& subject, const Case& which, uint64_t seed,
                     const std::optional<Ceilings>& ceilings = {}) {
  const auto cpu = open_cpu();
  Problem problem(*subject.op, *subject.path, which, *cpu);
  const Verdict verdict = judge(subject, problem);
  if (verdict.kind != VerdictKind::kPass) return verdict.reason;
  const Recipe recipe = subject.path->recipe(which.dims, which.dtype);
  std::string implausible;
  try {
    Timer timer(subject, problem, seed);
    for (const Cache cache : {Cache::kCold, Cache::kWarm}) {
      Samples samples = timer.take(cache);
      if (!samples.fault.empty()) return samples.fault;
      if (auto wrong = find_wrong_answer(subject, which, recipe, seed, timer.take_answers()))
        return wrong->reason;
      if (samples.near) {
        if (auto wrong = find_wrong_answer(subject, *samples.near, seed)) return wrong->reason;
      }
      if (!samples.doubt.empty() && !Timer(subject, problem, seed + 1).take(cache).doubt.empty())
        return samples.doubt;
      const Perf perf =
          perf_of(std::move(samples), subject, recipe, which, cpu->info(), cache, ceilings, seed);
      if (implausible.empty()) implausible = perf.implausible.value_or("");
    }
  } catch (const Trespass& trespass) {
    return trespass.what();
  }
  return implausible;
}

struct Caught {
  std::string_view path;
  std::string by;  // a regular expression
};

// By which rule each hostile specimen is caught; that of one shape is right on this one. Where the
// machine keeps the harness from a processor for as long as a thread waits until it writes, the
// bits of the call itself are other ones.
const Caught kCaught[] = {
    {"hostile.nothing", "still holds what was there before the call"},
    {"hostile.constant", "are wrong"},
    {"hostile.first_row", "still holds what was there before the call"},
    {"hostile.one_shape", ""},
    {"hostile.coarse", "are wrong"},
    {"hostile.cached_by_address", "still holds what was there before the call"},
    {"hostile.cached_by_values", "on inputs that it has not seen"},
    {"hostile.idle_after_calls", "a timed call on"},
    {"hostile.idle_for_one_call_in_two", "a timed call on"},
    {"hostile.part_after_calls",
     "than an earlier call on it; against the call after that, 196608 of 262144 "},
    {"hostile.copies_an_answer", "gives the bits of a call on other inputs"},
    {"hostile.unrepeatable_idle_when_warm", "a timed call on draw"},
    {"hostile.works_on_poison", "a timed call on"},
    {"hostile.coarse_without_poison", "gives other bits than an earlier call on it"},
    {"hostile.coarse_on_new_inputs", "a timed call on"},
    {"hostile.coarse_on_most_new_inputs", "a timed call (on draw|of dynamic_conv)"},
    {"hostile.coarse_on_other_data", "a timed call on data="},
    {"hostile.slow_on_other_data", "from another seed, and"},
    {"hostile.slow_on_other_shapes", "a call of dynamic_conv/.*/t=2.0/.* takes"},
    {"hostile.coarse_on_other_shapes", "a timed call of dynamic_conv/.*/t=2.0/.*: "},
    {"hostile.computes_later", "out"},
    {"hostile.ends_later", "out"},
    {"hostile.writes_later_after_calls",
     "the outputs change after the call has returned|gives other bits than an earlier call on it"},
    {"hostile.spoils_inputs_after_calls", "wrote to the input x"},
    {"hostile.keeps_last_result", "on inputs that it has not seen"},
    {"hostile.keeps_last_result_by_few_values",
     "a timed call on inputs with a few other elements gives other bits"},
    {"hostile.unrepeatable_keeps_last_result", "gives the bits of the call before"},
    {"hostile.keeps_all_results", "on inputs that it has not seen"},
    {"hostile.works_ahead", "before the path is called"},
    {"hostile.sets_clock_back", "by the clock of its process"},
    {"hostile.sets_all_clocks_back", "is less than reading as many bytes takes"},
};

TEST(Hostile, EachSpecimenIsCaughtByItsRule) {
  NOT_UNDER_THREAD_SANITIZER("some of them are races");
  size_t on_cpu = 0;
  for (const Specimen* specimen : registry().hostile(registry().op("dynamic_conv"))) {
    if (specimen->path.device != DeviceKind::kCpu) continue;
    ++on_cpu;
    const auto* const caught = std::ranges::find(kCaught, specimen->path.name, &Caught::path);
    ASSERT_NE(caught, std::end(kCaught)) << specimen->path.name;
    // Sanitizers make it compute for 3.5 ms, of which the flush leaves it 0.2 ms: it gains nothing.
    if (test::kIsSanitized && caught->path == "hostile.works_ahead") continue;
    // For calls in caches no time is too short. Of clocks that are set back, calls of a busy
    // machine are told to take up to a half of what this memory allows.
    const double rate = caught->path == "hostile.sets_all_clocks_back" ? 5e10 : 1e13;
    const Ceilings ceilings{.copy_bytes_per_s = rate,
                            .copy_method = "given",
                            .read_bytes_per_s = rate,
                            .product_flops_per_s = {}};
    const Subject subject = registry().subject("dynamic_conv", specimen->path.name);
    const Case which = small_case("dynamic_conv", specimen->path.name, *specimen->timed_on);
    std::string fault = fault_of(subject, which, kSeed, ceilings);
    // On a busy machine a time may hide that another is longer.
    for (uint64_t seed = kSeed + 10; fault.empty() && !caught->by.empty() && seed < kSeed + 12; ++seed)
      fault = fault_of(subject, which, seed, ceilings);
    EXPECT_EQ(fault.empty(), caught->by.empty()) << specimen->path.name << ": " << fault;
    EXPECT_THAT(fault, testing::ContainsRegex(caught->by)) << specimen->path.name;
  }
  EXPECT_EQ(on_cpu, std::size(kCaught));
}

TEST(Hostile, HonestPathsAreNot) {
  NOT_UNDER_THREAD_SANITIZER("it slows threads down at random, and times are compared");
  for (const auto& [op, dims] : std::initializer_list<std::pair<std::string_view, Dims>>{
           {"dynamic_conv", kSmall},
           {"dynamic_conv_grad", kSmall},
           {"mhc_post", {{"n", 16}, {"hc", 4}, {"h", 256}}},
           {"cheri_conv_norm", {{"n", 2}, {"l", 100}, {"c", 16}, {"dilation", 2}}},
           {"cheri_conv_norm_grad", {{"n", 2}, {"l", 100}, {"c", 16}, {"dilation", 2}}},
           {"cheri_block", {{"n", 2}, {"l", 64}, {"c", 16}, {"dilation", 2}, {"hidden", 32}}},
           {"trimul", {{"b", 1}, {"n", 24}, {"c", 16}, {"h", 16}, {"mask", 1}}}}) {
    Subject subject = registry().subject(op, "cpu");
    EXPECT_EQ(fault_of(subject, small_case(op, "cpu", dims), kSeed), "") << op;
    if (op != "dynamic_conv") continue;
    Path without_promise = *subject.path;
    without_promise.deterministic = false;
    subject.path = &without_promise;
    EXPECT_EQ(fault_of(subject, small_case(op, "cpu", dims), kSeed), "") << op << " without equal bits";
  }
}

}  // namespace
}  // namespace assay
