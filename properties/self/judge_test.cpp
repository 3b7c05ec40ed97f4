// SPDX-License-Identifier: Apache-2.0
// The rules of the judge, each shown red on a path with exactly that fault, and green on the production
// paths.
#include "properties/core/judge.h"

#include <cmath>
#include <set>
#include <tuple>

#include "properties/core/generate.h"
#include "properties/core/precheck.h"
#include "properties/self/gpu.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::cpu;
using testing::AllOf;
using testing::HasSubstr;

Case small_case() {
  return parse_case("dynamic_conv/cpu/f32/b=2/t=9/d=5/w=8/seed=3");
}

// The production path with something done after each call.
Path spoiled(std::function<void(const Call&)> spoil) {
  Path path = registry().op("dynamic_conv").path("cpu");
  path.run = [run = path.run, spoil = std::move(spoil)](const Call& call) {
    run(call);
    spoil(call);
  };
  return path;
}

Verdict judge_path(const Path& path, const Case& which = small_case(), const Oracle* oracle = nullptr,
                   Device& device = cpu()) {
  const Registry& all = registry();
  return judge({&all.op(which.op), &path, oracle != nullptr ? oracle : &all.oracle(which.op)}, which, device);
}

float* output(const Call& call) {
  return call.outputs[0].as<float>();
}
float* input(const Call& call, size_t i) {
  return const_cast<float*>(call.inputs[i].as<float>());
}

void expect(const Verdict& verdict, VerdictKind kind, const testing::Matcher<std::string>& reason) {
  EXPECT_EQ(name_of(verdict.kind), name_of(kind)) << verdict.reason;
  EXPECT_THAT(verdict.reason, reason);
}

TEST(Judge, PassesTheSpoilerThatSpoilsNothing) {
  expect(judge_path(spoiled([](const Call&) {})), VerdictKind::kPass, HasSubstr("90"));
}

TEST(JudgeRule1, UnsupportedHasItsReason) {
  Path path = spoiled([](const Call&) {});
  path.unsupported = [](const Dims& dims, DType) { return fmt::format("w={} is too long", dims["w"]); };
  expect(judge_path(path), VerdictKind::kUnsupported, HasSubstr("w=8 is too long"));
  Case wide = small_case();
  wide.dtype = DType::kF64;
  expect(judge_path(spoiled([](const Call&) {}), wide), VerdictKind::kUnsupported, HasSubstr("f64"));
  expect(judge_path(spoiled([](const Call&) { throw unsupported_error("no {}", "way"); })),
         VerdictKind::kUnsupported, HasSubstr("no way"));
}

TEST(JudgeRule1, IllegalCasesAreRefusedOrSkipped) {
  Case none = small_case();
  none.dims.set("w", 9);
  EXPECT_THAT(test::error_of([&] { judge_path(spoiled([](const Call&) {}), none); }), HasSubstr("w=9"));
  Case single = small_case();
  single.dims.set("b", 1);
  single.layout = Layout::kBroadcast;
  expect(judge_path(spoiled([](const Call&) {}), single), VerdictKind::kSkipped, HasSubstr("broadcast"));
}

TEST(JudgeRule2, ErrorsBecomeVerdicts) {
  expect(judge_path(spoiled([](const Call&) { throw usage_error("x is {}", "odd"); })), VerdictKind::kFail,
         HasSubstr("x is odd"));
  expect(judge_path(spoiled([](const Call&) { throw device_error("fault {}", 700); })), VerdictKind::kCrashed,
         HasSubstr("fault 700"));
}

TEST(JudgeRule2, AnyExceptionOfThePathCostsOneVerdict) {
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
  void flush_cache() override {}
};

TEST(JudgeRule2, TooLittleMemoryIsSkipped) {
  FullDevice full;
  expect(judge_path(spoiled([](const Call&) {}), small_case(), nullptr, full), VerdictKind::kSkipped,
         HasSubstr("cannot allocate"));
}

TEST(JudgeRule3, ModifiedInputsFail) {
  expect(judge_path(spoiled([](const Call& call) { *input(call, 1) += 1; })), VerdictKind::kFail,
         HasSubstr("input k"));
  expect(judge_path(spoiled([](const Call& call) { input(call, 0)[-1] = 0; })), VerdictKind::kFail,
         HasSubstr("input x"));
  Case strided = small_case();
  strided.layout = Layout::kStrided;
  expect(judge_path(spoiled([](const Call& call) { input(call, 0)[5] = 0; }), strided), VerdictKind::kFail,
         HasSubstr("input x"));
}

TEST(JudgeRule4, WritesAroundOutputsFail) {
  expect(judge_path(spoiled([](const Call& call) { output(call)[-1] = 0; })), VerdictKind::kFail,
         AllOf(HasSubstr("out"), HasSubstr("before")));
  expect(judge_path(spoiled([](const Call& call) { output(call)[90] = 0; })), VerdictKind::kFail,
         AllOf(HasSubstr("out"), HasSubstr("after the end")));
  Case strided = small_case();
  strided.layout = Layout::kStrided;
  expect(judge_path(spoiled([](const Call& call) { output(call)[5] = 0; }), strided), VerdictKind::kFail,
         AllOf(HasSubstr("out"), HasSubstr("gap")));
}

TEST(JudgeRule4, EmptyTensorsAreGuardedToo) {
  Case empty = small_case();
  empty.dims.set("d", 0);
  expect(judge_path(spoiled([](const Call&) {}), empty), VerdictKind::kSkipped, HasSubstr("empty"));
  expect(judge_path(spoiled([](const Call& call) { *output(call) = 0; }), empty), VerdictKind::kFail,
         HasSubstr("out"));
}

TEST(JudgeRule5, UnwrittenElementsFail) {
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

TEST(JudgeRule5, NondeterminismFailsOnlyWhereItWasDenied) {
  int calls = 0;
  Path path = spoiled([&calls](const Call& call) {
    if (++calls % 2 == 0) output(call)[89] = std::nextafter(output(call)[89], 0.0f);
  });
  expect(judge_path(path), VerdictKind::kFail, AllOf(HasSubstr("out[1, 8, 4]"), HasSubstr("deterministic")));
  path.deterministic = false;
  expect(judge_path(path), VerdictKind::kPass, testing::_);
}

// dynamic_conv with a context: what a path may keep between calls, each thing used wrongly once.
Case in_state(std::string_view state) {
  Case which = small_case();
  which.state = parse_state(state);
  return which;
}

const Tunable& halves() {
  static const Tunable tunable{
      .name = "test_halves", .version = 1, .configs = {{{"skip", 0}}, {{"skip", 1}}}};
  return tunable;
}

// The production path whose output goes through a tuned launch: `finish` does to it what the test wants.
Path tuned(std::vector<Buffer> (*buffers)(const Call&), std::function<void(const Config&, float*)> finish) {
  Path path = spoiled([=](const Call& call) {
    call.context->tuner().run({.tunable = &halves(),
                               .key = tuning_key(call),
                               .unfit = {},
                               .buffers = buffers(call),
                               .run = [&](const Config& config, std::span<void* const> data) {
                                 finish(config, static_cast<float*>(data[0]));
                               }});
  });
  path.tunables = {&halves()};
  return path;
}

std::vector<Buffer> updated_output(const Call& call) {
  return {buffer_of("out", Role::kUpdate, call.outputs[0])};
}

TEST(JudgeRule6, RightPathsPassInEveryState) {
  const Path path = tuned(updated_output, [](const Config&, float* out) { *out *= 1; });
  for (std::string_view state :
       {"first_call", "second_call", "warm", "retuned", "cache_loaded", "dirty_workspace", "weights_updated",
        "after:bf16,b=1,t=3,d=2,w=1", "forced:test_halves:skip=0", "forced:test_halves:skip=1",
        "warm+retuned+after:f32,b=2,t=9,d=5,w=7+cache_loaded+second_call"}) {
    expect(judge_path(path, in_state(state)), VerdictKind::kPass, HasSubstr("90"));
  }
}

TEST(JudgeRule6, StatesThatDoNotApplyAreSkipped) {
  const Path plain = spoiled([](const Call&) {});
  expect(judge_path(plain, in_state("retuned")), VerdictKind::kSkipped, HasSubstr("no configurations"));
  expect(judge_path(plain, in_state("forced:test_halves:skip=0")), VerdictKind::kSkipped,
         HasSubstr("forced:test_halves:skip=0"));
  expect(judge_path(plain, in_state("graph_replay")), VerdictKind::kSkipped, HasSubstr("no graphs"));
  expect(judge_path(plain, in_state("after:f64,b=1,t=3,d=2,w=1")), VerdictKind::kSkipped, HasSubstr("f64"));
}

TEST(JudgeRule6, ConfigurationsThatGiveOtherBitsFail) {
  const Path path = tuned(updated_output, [](const Config& config, float* out) {
    if (config["skip"] == 1) *out = std::nextafter(*out, 2.0f);
  });
  expect(judge_path(path, in_state("forced:test_halves:skip=1")), VerdictKind::kFail,
         AllOf(HasSubstr("out[0, 0, 0]"), HasSubstr("in a new context")));
}

TEST(JudgeRule6, WhatTheWorkspaceHeldMustNotShow) {
  const Path path = spoiled([](const Call& call) {
    const Workspace::Lease lease = call.context->workspace().lease(4, call.stream);
    if (std::isnan(*lease.as<float>())) *output(call) += 1;
  });
  expect(judge_path(path, in_state("second_call")), VerdictKind::kPass, testing::_);
  expect(judge_path(path, in_state("dirty_workspace")), VerdictKind::kFail, HasSubstr("in a new context"));
}

TEST(JudgeRule6, StaleDerivedTensorsFail) {
  // The first weight, kept by address: a version would tell that it has changed.
  const Path path = spoiled([](const Call& call) {
    const auto kept = call.context->derived().get(
        "weight", 4, {reinterpret_cast<uintptr_t>(call.inputs[1].data)}, call.stream,
        [&](void* data) { *static_cast<float*>(data) = *input(call, 1); });
    if (*static_cast<float*>(kept.data()) != *input(call, 1)) *output(call) += 1;
  });
  expect(judge_path(path), VerdictKind::kPass, testing::_);
  expect(judge_path(path, in_state("weights_updated")), VerdictKind::kFail, HasSubstr("in a new context"));
}

TEST(JudgeRule6, WrongStepsAreNamed) {
  int calls = 0;
  const Path path = spoiled([&](const Call& call) {
    if (++calls == 2) *output(call) += 1;
  });
  expect(judge_path(path, in_state("warm+warm+second_call")), VerdictKind::kFail,
         AllOf(HasSubstr("step 2"), HasSubstr("out[0, 0, 0]")));
}

TEST(JudgeRule7, WrongRolesFail) {
  const auto with_role = [](std::vector<Buffer> (*buffers)(const Call&)) {
    return judge_path(tuned(buffers, [](const Config&, float* out) { *out += 1; }));
  };
  expect(with_role([](const Call& call) -> std::vector<Buffer> {
           return {buffer_of("out", Role::kWrite, call.outputs[0])};
         }),
         VerdictKind::kFail,
         AllOf(HasSubstr("test_halves"), HasSubstr("declares out write"), HasSubstr("a second run")));
  expect(with_role([](const Call& call) -> std::vector<Buffer> {
           return {buffer_of("out", Role::kRead, call.outputs[0])};
         }),
         VerdictKind::kFail, HasSubstr("declares out read, but writes it"));
}

TEST(JudgeRule8, WrongElementsFailAndAreNamed) {
  const Verdict verdict = judge_path(spoiled([](const Call& call) { output(call)[17] += 0.001f; }));
  expect(verdict, VerdictKind::kFail, AllOf(HasSubstr("1 of 90"), HasSubstr("out[0, 3, 2]")));
  ASSERT_EQ(verdict.outputs.size(), 1u);
  EXPECT_EQ(verdict.outputs[0].comparison.wrong, 1);
  EXPECT_EQ(verdict.outputs[0].comparison.worst->element, 17);
  expect(judge_path(spoiled([](const Call& call) { output(call)[17] = NAN; })), VerdictKind::kFail,
         HasSubstr("out[0, 3, 2] = nan"));
  expect(judge_path(spoiled([](const Call& call) { output(call)[17] = INFINITY; })), VerdictKind::kFail,
         HasSubstr("inf"));
}

// The oracle of dynamic_conv with every bound widened by a factor.
Oracle loose_oracle(double factor) {
  Oracle oracle = registry().oracle("dynamic_conv");
  oracle.solve = [solve = oracle.solve, factor](const Question& question, int output) -> Answer {
    return [answer = solve(question, output), factor](std::span<const int64_t> elements,
                                                      std::span<Expected> expected) {
      answer(elements, expected);
      for (Expected& e : expected) e.bound *= factor;
    };
  };
  return oracle;
}

TEST(JudgeRule9, ErrorsWithinTheBoundFailTheRmsLaw) {
  const Oracle loose = loose_oracle(2);
  const Case which = parse_case("dynamic_conv/cpu/bf16/b=1/t=256/d=256/w=4/data=positive");
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), which, &loose), VerdictKind::kPass,
         testing::_);
  expect(judge_path(test::specimen("dynamic_conv", "output_truncated").path, which, &loose),
         VerdictKind::kFail, AllOf(HasSubstr("rms"), HasSubstr("out")));
}

TEST(JudgeRule10, ABoundThatAcceptsAnythingIsMistrusted) {
  const Oracle blind = loose_oracle(1e9);
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), small_case(), &blind),
         VerdictKind::kMistrusted, HasSubstr("accept"));
}

TEST(JudgeRule10, EveryCounterfeitCounts) {
  Oracle oracle = registry().oracle("dynamic_conv");
  oracle.counterfeits = {{"a twin with one bit less", [](const Question& question, int output) -> Answer {
                            return [answer = registry().oracle("dynamic_conv").solve(question, output)](
                                       std::span<const int64_t> elements, std::span<Expected> expected) {
                              answer(elements, expected);
                              for (Expected& e : expected) e.value += 4 * ulp_at(DType::kF32, e.value);
                            };
                          }}};
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), small_case(), &oracle), VerdictKind::kPass,
         testing::_);
  Oracle loose = loose_oracle(20);
  loose.counterfeits = oracle.counterfeits;
  expect(judge_path(registry().op("dynamic_conv").path("cpu"), small_case(), &loose),
         VerdictKind::kMistrusted, HasSubstr("a twin with one bit less"));
}

TEST(JudgeRule10, SeesThePreviousCall) {
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

// The production paths of an op on one kind of device.
class JudgeEveryOp : public testing::TestWithParam<std::tuple<const Op*, DeviceKind>> {
 protected:
  void SetUp() override {
    if (kind() == DeviceKind::kCpu) {
      device_ = &cpu();
    } else {
      const test::Gpu gpu = test::gpu();
      if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
      device_ = gpu.device;
    }
  }
  const Op& op() const { return *std::get<0>(GetParam()); }
  DeviceKind kind() const { return std::get<1>(GetParam()); }

  void expect_pass(const Dims& dims, Layout layout, DType dtype) {
    // On a GPU such tensors take memory by the 16 GiB; `assay verify` draws a few.
    if (layout == Layout::kInflated && kind() == DeviceKind::kCuda) return;
    for (const Path& path : op().paths) {
      if (path.device != kind()) continue;
      Case which{.op = std::string(op().name), .path = std::string(path.name), .dtype = dtype, .dims = dims};
      which.layout = layout;
      if (precheck({&op(), &path, &registry().oracle(op().name)}, which)) continue;
      const Verdict verdict = judge_path(path, which, nullptr, *device_);
      EXPECT_EQ(verdict.kind, test::is_empty(op(), dims) ? VerdictKind::kSkipped : VerdictKind::kPass)
          << which.to_string() << ": " << verdict.reason;
      if (verdict.kind == VerdictKind::kPass) passed_.insert(path.name);
    }
  }

  // Every configuration of every tuned path by itself; those that do not fit say so.
  void expect_configurations_pass(const Dims& dims, DType dtype) {
    for (const Path& path : op().paths) {
      if (path.device != kind()) continue;
      for (const Tunable* tunable : path.tunables) {
        int passed = 0;
        for (const Config& config : tunable->configs) {
          Case which{
              .op = std::string(op().name), .path = std::string(path.name), .dtype = dtype, .dims = dims};
          which.state.steps.push_back(
              {.kind = StepKind::kForced, .tunable = tunable->name, .config = config.to_string()});
          const Verdict verdict = judge_path(path, which, nullptr, *device_);
          if (verdict.kind == VerdictKind::kUnsupported) continue;
          EXPECT_EQ(verdict.kind, VerdictKind::kPass) << which.to_string() << ": " << verdict.reason;
          ++passed;
        }
        const bool is_served = !path.unsupported || !path.unsupported(dims, dtype);
        EXPECT_EQ(passed > 0, is_served) << path.name << ' ' << tunable->name;
      }
    }
  }

  // A path that refuses every case has shown nothing.
  void expect_passes_of_every_path() const {
    for (const Path& path : op().paths)
      EXPECT_TRUE(path.device != kind() || passed_.contains(path.name)) << path.name;
  }

 private:
  Device* device_ = nullptr;
  std::set<std::string_view> passed_;  // names of paths
};
INSTANTIATE_TEST_SUITE_P(Ops, JudgeEveryOp,
                         testing::Combine(testing::ValuesIn(registry().ops()),
                                          testing::Values(DeviceKind::kCpu, DeviceKind::kCuda)),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param)->name,
                                              name_of(std::get<1>(test.param)));
                         });

// Every combination of sizes around the op's edges, with the dtypes and the layouts taking turns.
TEST_P(JudgeEveryOp, PassesAtEveryEdge) {
  constexpr int64_t kElements = 1 << 13;
  const auto layouts = all_layouts();
  const std::vector<DType>& dtypes = op().paths.front().dtypes;
  size_t turn = 0;
  for (const Dims& dims : test::boundary_dims(op(), kElements)) {
    // The next layout that these dimensions allow.
    while (!is_legal(layouts[turn % layouts.size()], op(), dims)) ++turn;
    expect_pass(dims, layouts[turn % layouts.size()], dtypes[turn / layouts.size() % dtypes.size()]);
    ++turn;
  }
  EXPECT_GT(turn, layouts.size() * dtypes.size());
  expect_passes_of_every_path();
}

// Every layout of every dtype on few elements.
TEST_P(JudgeEveryOp, PassesInEveryLayout) {
  for (DType dtype : op().paths.front().dtypes) {
    for (int64_t size : {1, 3, 1000}) {
      for (Layout layout : all_layouts()) expect_pass(test::small_dims(op(), size), layout, dtype);
    }
  }
  expect_passes_of_every_path();
}

TEST_P(JudgeEveryOp, PassesInEveryConfiguration) {
  for (DType dtype : op().paths.front().dtypes) {
    expect_configurations_pass(test::small_dims(op(), 3), dtype);
    expect_configurations_pass(test::large_dims(op(), dtype, 96, 2, int64_t{1} << 18), dtype);
  }
}

// Large outputs take a path's streaming stores, which no fuzzed case is large enough for.
TEST_P(JudgeEveryOp, PassesOnLargeOutputsInEveryLayout) {
  const auto large = [&](DType dtype, int64_t row, int64_t short_size) {
    return test::large_dims(op(), dtype, row, short_size, int64_t{9} << 20);
  };
  for (DType dtype : op().paths.front().dtypes) {
    expect_pass(large(dtype, 1024, 2), Layout::kDense, dtype);  // whole vectors and cache lines
    expect_pass(large(dtype, 1030, 1), Layout::kDense, dtype);
  }
  const DType dtype = op().paths.front().dtypes.front();
  for (Layout layout : {Layout::kStrided, Layout::kMisaligned, Layout::kMixed}) {
    expect_pass(large(dtype, 1030, 2), layout, dtype);
  }
  expect_passes_of_every_path();
}

TEST(Judge, SkipsWhatDoesNotFitIntoMemory) {
  for (std::string_view dims : {"b=1/t=1099511627776/d=1/w=1", "b=2097152/t=1099511627776/d=1/w=2"}) {
    const Case which = parse_case(fmt::format("dynamic_conv/cpu/f32/{}", dims));
    expect(judge_path(registry().op("dynamic_conv").path("cpu"), which), VerdictKind::kSkipped,
           HasSubstr("GiB"));
  }
}

TEST(ComparedElements, AreAllUpToTheLimitAndASampleBeyond) {
  EXPECT_EQ(compared_elements({3, 4}, 1).size(), 12u);
  const Extents large{2, 4096, 1024};
  const auto sample = compared_elements(large, 1);
  EXPECT_TRUE(std::ranges::is_sorted(sample));
  EXPECT_EQ(std::ranges::adjacent_find(sample), sample.end());
  EXPECT_GT(static_cast<int64_t>(sample.size()), kRandomSample / 2);
  EXPECT_LT(static_cast<int64_t>(sample.size()), 2 * kRandomSample);
  EXPECT_EQ(sample, compared_elements(large, 1));
  EXPECT_NE(sample, compared_elements(large, 2));
  const auto has = [&](int64_t element) { return std::ranges::binary_search(sample, element); };
  for (int64_t i = 0; i < 1024; ++i) {
    ASSERT_TRUE(has(i) && has(element_count(large) - 1 - i) && has(1024 + i) && has(kTileEdge * 1024 + i))
        << i;
  }
  EXPECT_TRUE(std::ranges::all_of(sample, [&](int64_t i) { return i >= 0 && i < element_count(large); }));
}

}  // namespace
}  // namespace assay
