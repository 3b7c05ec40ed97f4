// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// The rules of the judge. Each is shown red on a path with exactly that fault. Refusals, and rules
// 6 and 7, have files of their own, judge_refusals_test.cpp and judge_history_test.cpp.
// judge_ops_test.cpp shows that all rules pass the production paths.
#include "properties/core/judge.h"

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "properties/core/float_environment.h"
#include "properties/self/environment_changes.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

using dynamic_conv::kK;
using dynamic_conv::kOut;
using dynamic_conv::kX;
using test::changed_oracle;
using test::cpu;
using test::expect;
using test::input;
using test::judge_path;
using test::loose_oracle;
using test::output;
using test::small_case;
using test::spoiled;
using testing::AllOf;
using testing::HasSubstr;

TEST(Judge, PassesTheSpoilerThatSpoilsNothing) {
  expect(judge_path(spoiled([](const Call&) {})), VerdictKind::kPass, HasSubstr("90"));
}

TEST(JudgeErrors, ErrorsBecomeVerdicts) {
  expect(judge_path(spoiled([](const Call&) { throw usage_error("x is {}", "odd"); })), VerdictKind::kFail,
         HasSubstr("x is odd"));
  expect(judge_path(spoiled([](const Call&) { throw device_error("fault {}", 700); })), VerdictKind::kCrashed,
         HasSubstr("fault 700"));
}

TEST(JudgeErrors, AnyExceptionOfThePathCostsOneVerdict) {
  const auto kind_of = [](const Path& path) {
    try {
      const Verdict verdict = judge_path(path);
      EXPECT_THAT(verdict.reason, HasSubstr("bug"));
      return verdict.kind;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "the judge let an exception of the path through: " << error.what();
      return VerdictKind::kPass;
    }
  };
  EXPECT_TRUE(is_failure(kind_of(spoiled([](const Call&) { throw Error("our own bug"); }))));
  EXPECT_TRUE(is_failure(kind_of(spoiled([](const Call&) { throw std::runtime_error("a foreign bug"); }))));
}

TEST(JudgeErrors, AnObjectThatIsNoExceptionIsNamedByItsType) {
  expect(judge_path(spoiled([](const Call&) { throw 7; })), VerdictKind::kCrashed,
         HasSubstr("threw an object of the type int"));
}

TEST(JudgeErrors, AChangedFloatingPointEnvironmentFailsAndIsUndone) {
  const FloatEnvironment environment;
  for (const auto& change : test::environment_changes()) {
    expect(judge_path(spoiled([&](const Call&) { change.make(); })), VerdictKind::kFail,
           HasSubstr(fmt::format("the path changed {}", change.name)));
    EXPECT_EQ(environment.change(), std::nullopt);
  }
}

// A machine without memory.
class FullDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return cpu().info(); }
  void* allocate(int64_t bytes) override { throw device_error("cannot allocate {} bytes", bytes); }
  void release(void*, int64_t) noexcept override {}
  bool host_can_access() const override { return true; }
  void copy_to_device(void*, const void*, int64_t) override {}
  void copy_to_host(void*, const void*, int64_t) override {}
  void* stream() const override { return nullptr; }
  void* other_stream() override { return nullptr; }
  void synchronize(void*) override {}
  void copy(void*, const void*, int64_t, void*) override {}
  void fill(void*, unsigned char, int64_t, void*) override {}
  double time(const std::function<void()>&, void*) override { return 0; }
  std::function<void()> capture(const std::function<void()>&) override { return {}; }
  bool is_capturing(void*) const override { return false; }
  void run_on_other_schedule(const std::function<void()>& work, uint64_t) override { work(); }
  void flush_cache() override {}
};

TEST(JudgeErrors, TooLittleMemoryIsSkipped) {
  FullDevice full;
  expect(judge_path(spoiled([](const Call&) {}), small_case(), nullptr, full), VerdictKind::kSkipped,
         HasSubstr("cannot allocate"));
}

TEST(JudgeInputs, ModifiedInputsFail) {
  expect(judge_path(spoiled([](const Call& call) { *input(call, kK) += 1; })), VerdictKind::kFail,
         HasSubstr("input k"));
  expect(judge_path(spoiled([](const Call& call) { input(call, kX)[-1] = 0; })), VerdictKind::kFail,
         HasSubstr("input x"));
  Case strided = small_case();
  strided.layout = Layout::kStrided;
  expect(judge_path(spoiled([](const Call& call) { input(call, kX)[5] = 0; }), strided), VerdictKind::kFail,
         HasSubstr("input x"));
}

// Only the hash of an input shows what the system wrote for the path.
TEST(JudgeInputs, WritesThatGoAroundPageProtectionFail) {
  const int memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  ASSERT_GE(memory, 0);
  const auto write_through = [memory](const Call& call) {
    const float value = 5;
    EXPECT_EQ(pwrite(memory, &value, sizeof(value), reinterpret_cast<off_t>(input(call, kK))),
              ssize_t{sizeof(value)});
  };
  expect(judge_path(spoiled(write_through)), VerdictKind::kFail,
         HasSubstr("input k, or the memory around it"));
  close(memory);
}

TEST(JudgeInputs, WritesThatAreTakenBackFail) {
  expect(judge_path(spoiled([](const Call& call) {
           const float kept = *input(call, kX);
           *const_cast<volatile float*>(input(call, kX)) = 0;
           *input(call, kX) = kept;
         })),
         VerdictKind::kFail, HasSubstr("wrote to the input x, 0 bytes after the first element"));
}

// A strided x ends 149 elements after it begins, and does so at a fence, or begins at one.
TEST(JudgeGuards, ReadsThatNobodyUsesFailAtOneEndOrTheOther) {
  const auto reads = [](int64_t element) {
    return spoiled([element](const Call& call) {
      static_cast<void>(*const_cast<const volatile float*>(input(call, kX) + element));
    });
  };
  int ends = 0;
  constexpr int kSeeds = 16;
  for (int seed = 0; seed < kSeeds; ++seed) {
    Case which = small_case();
    which.layout = Layout::kStrided;
    which.seed = static_cast<uint64_t>(seed);
    const Verdict past = judge_path(reads(149), which), before = judge_path(reads(-1), which);
    const bool is_at_end = past.kind == VerdictKind::kFail;
    ends += is_at_end ? 1 : 0;
    expect(is_at_end ? past : before, VerdictKind::kFail,
           HasSubstr(is_at_end ? "the path read past the end of the input x: 0 bytes after the end"
                               : "the path read before the start of the input x: 4 bytes before the first"));
    expect(is_at_end ? before : past, VerdictKind::kPass, testing::_);
    expect(judge_path(reads(148), which), VerdictKind::kPass, testing::_);
  }
  EXPECT_GT(ends, 0);
  EXPECT_LT(ends, kSeeds);
}

TEST(JudgeGuards, TouchesOfOtherThreadsAndInStepsFail) {
  Case which = small_case();
  which.state = parse_state("weights_moved+second_call");
  int calls = 0;
  const auto on_call = [&calls](int number) {
    return spoiled([&calls, number](const Call& call) {
      if (++calls != number) return;
      std::thread([&call] { output(call)[int64_t{1} << 18] = 0; }).join();
    });
  };
  for (int number : {1, 2, 3}) {
    calls = 0;
    expect(judge_path(on_call(number), which), VerdictKind::kFail,
           HasSubstr("the path wrote past the end of the output out"));
  }
}

TEST(JudgeGuards, WritesAroundOutputsFail) {
  expect(judge_path(spoiled([](const Call& call) { output(call)[-1] = 0; })), VerdictKind::kFail,
         AllOf(HasSubstr("out"), HasSubstr("before")));
  expect(judge_path(spoiled([](const Call& call) { output(call)[90] = 0; })), VerdictKind::kFail,
         AllOf(HasSubstr("out"), HasSubstr("after the end")));
  Case strided = small_case();
  strided.layout = Layout::kStrided;
  expect(judge_path(spoiled([](const Call& call) { output(call)[5] = 0; }), strided), VerdictKind::kFail,
         AllOf(HasSubstr("out"), HasSubstr("gap")));
}

TEST(JudgeGuards, EmptyTensorsAreGuardedToo) {
  Case empty = small_case();
  empty.dims.set("d", 0);
  expect(judge_path(spoiled([](const Call&) {}), empty), VerdictKind::kSkipped, HasSubstr("empty"));
  expect(judge_path(spoiled([](const Call& call) { *output(call) = 0; }), empty), VerdictKind::kFail,
         HasSubstr("out"));
}

TEST(JudgeReruns, UnwrittenElementsFail) {
  Path path = registry().op("dynamic_conv").path("cpu");
  path.run = [run = path.run](const Call& call) {
    const float kept = output(call)[17];
    run(call);
    output(call)[17] = kept;
  };
  expect(judge_path(path), VerdictKind::kFail, AllOf(HasSubstr("out[0, 3, 2]"), HasSubstr("still holds")));
  path.deterministic = false;
  expect(judge_path(path), VerdictKind::kFail, AllOf(HasSubstr("out[0, 3, 2]"), HasSubstr("still holds")));
}

TEST(JudgeReruns, NondeterminismFailsOnlyWhereItWasDenied) {
  int calls = 0;
  Path path = spoiled([&calls](const Call& call) {
    if (++calls % 2 == 0) output(call)[89] = std::nextafter(output(call)[89], 0.0f);
  });
  expect(judge_path(path), VerdictKind::kFail, AllOf(HasSubstr("out[1, 8, 4]"), HasSubstr("deterministic")));
  path.deterministic = false;
  expect(judge_path(path), VerdictKind::kPass, testing::_);
}

TEST(JudgeElements, WrongElementsFailAndAreNamed) {
  const Verdict verdict = judge_path(spoiled([](const Call& call) { output(call)[17] += 0.001f; }));
  expect(verdict, VerdictKind::kFail, AllOf(HasSubstr("1 of 90"), HasSubstr("out[0, 3, 2]")));
  ASSERT_EQ(verdict.outputs.size(), 1u);
  EXPECT_EQ(verdict.outputs[kOut].comparison.wrong, 1);
  EXPECT_EQ(verdict.outputs[kOut].comparison.worst->element, 17);
  expect(judge_path(spoiled([](const Call& call) { output(call)[17] = NAN; })), VerdictKind::kFail,
         HasSubstr("out[0, 3, 2] = nan"));
  expect(judge_path(spoiled([](const Call& call) { output(call)[17] = INFINITY; })), VerdictKind::kFail,
         HasSubstr("inf"));
}

// If anything is right, garbage is not wrong, but it is no pass either.
TEST(JudgeElements, WhereEverythingIsOpenNothingWasShown) {
  int64_t kept = 0;
  const Oracle open = changed_oracle([&kept](int64_t element, Ball& ball) {
    if (element >= kept) ball = Ball::open();
  });
  const Path& path = registry().op("dynamic_conv").path("cpu");
  expect(judge_path(path, small_case(), &open), VerdictKind::kSkipped, HasSubstr("open"));
  kept = 9;
  expect(judge_path(path, small_case(), &open), VerdictKind::kPass, HasSubstr("81 of them may be anything"));
}

TEST(JudgeRms, ErrorsWithinTheBallsFailTheRmsLaw) {
  const Oracle loose = loose_oracle(0x1p17);  // an ulp of bf16 and more
  const Case which = parse_case("dynamic_conv/cpu/bf16/b=1/t=256/d=256/w=4/data=positive");
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), which, &loose), VerdictKind::kPass,
         testing::_);
  expect(judge_path(test::specimen("dynamic_conv", "output_truncated").path, which, &loose),
         VerdictKind::kFail, AllOf(HasSubstr("rms"), HasSubstr("out")));
}

TEST(JudgeCertificate, ABallThatHoldsAnythingIsUninformative) {
  const Oracle blind = loose_oracle(0x1p40);
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), small_case(), &blind),
         VerdictKind::kUninformative, HasSubstr("accept"));
}

TEST(JudgeCertificate, EveryFaultOfTheFormulaCounts) {
  const auto with_twin = [](Oracle oracle) {
    oracle.faults = {"a twin of fewer bits"};
    oracle.formula = [formula = oracle.formula](const Question& question, int output,
                                                const Arithmetic& arithmetic, int fault) {
      Evaluate right = formula(question, output, arithmetic, 0);
      if (fault == 0) return right;
      return Evaluate([right = std::move(right)](std::span<const int64_t> elements, std::span<Ball> values) {
        right(elements, values);
        for (Ball& value : values) value.mid += 64 * ulp_at(DType::kF32, value.mid);
      });
    };
    return oracle;
  };
  const Oracle sharp = with_twin(registry().oracle("dynamic_conv")), loose = with_twin(loose_oracle(100));
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), small_case(), &sharp), VerdictKind::kPass,
         testing::_);
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), small_case(), &loose),
         VerdictKind::kUninformative, HasSubstr("a twin of fewer bits"));
}

TEST(JudgeCertificate, SeesThePreviousCall) {
  Case second = small_case();
  second.state = parse_state("second_call");
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), second), VerdictKind::kPass, testing::_);
  expect(judge_path(test::specimen("dynamic_conv", "repeated_call_skipped").path, second), VerdictKind::kFail,
         testing::_);
}

TEST(Judge, IsAFunctionOfTheCase) {
  const Path& path = registry().op("dynamic_conv").path("cpu");
  const std::string first = judge_path(path).reason;
  judge_path(path, parse_case("dynamic_conv/cpu/f32/b=3/t=40/d=33/w=3/seed=9"));
  EXPECT_EQ(judge_path(path).reason, first);
}

TEST(Judge, LeavesTheProblemIntact) {
  const Case which = small_case();
  const Subject subject = registry().subject("dynamic_conv", "cpu");
  Problem problem(*subject.op, *subject.path, which, cpu());
  EXPECT_EQ(judge(subject, problem).kind, VerdictKind::kPass);
  Problem fresh(*subject.op, *subject.path, which, cpu());
  fresh.draw_inputs(which.seed);
  EXPECT_EQ(problem.inputs(), fresh.inputs());
}

TEST(Judge, SkipsWhatDoesNotFitIntoMemory) {
  for (std::string_view dims : {"b=1/t=1099511627776/d=1/w=1", "b=2097152/t=1099511627776/d=1/w=2"}) {
    const Case which = parse_case(fmt::format("dynamic_conv/cpu/f32/{}", dims));
    expect(judge_path(registry().op("dynamic_conv").path("cpu"), which), VerdictKind::kSkipped,
           HasSubstr("GiB"));
  }
}

// This is neither the path's fault nor a pass.
TEST(Judge, SkipsStatesThatCannotBeMade) {
  const Path& path = registry().op("dynamic_conv").path("cpu");
  const auto in_state = [](std::string_view dims) {
    return parse_case(fmt::format("dynamic_conv/cpu/f32/b=1/t=3/d=2/w=1/state=warm+after:f32,{}", dims));
  };
  expect(judge_path(path, in_state("b=1,t=1099511627776,d=1,w=1")), VerdictKind::kSkipped,
         AllOf(HasSubstr("step 2 of the state"), HasSubstr("GiB")));
  EXPECT_THAT([&] { judge_path(path, in_state("b=1099511627776,t=1099511627776,d=16,w=1")); },
              testing::ThrowsMessage<Error>(HasSubstr("2^62")));
}

}  // namespace
}  // namespace assay
