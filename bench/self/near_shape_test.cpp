// SPDX-License-Identifier: Apache-2.0
// Marks: threads
#include "bench/core/near_shape.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "bench/core/measure.h"
#include "kernels/core/error.h"
#include "properties/core/registry.h"

namespace assay {
namespace {

using Compute = std::function<void(const Call&)>;

constexpr uint64_t kSeed = 17;

Case case_of(int64_t batch, int64_t length) {
  return {.op = "dynamic_conv", .path = "cpu", .dims = {{"b", batch}, {"t", length}, {"d", 8}, {"w", 4}}};
}

// What some seeds make of a dimension; the other ones stay.
std::set<int64_t> sizes_near(const Op& op, const Case& which, std::string_view dim) {
  std::set<int64_t> sizes;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::optional<Case> near = near_case(op, which, seed);
    if (!near) continue;
    sizes.insert(near->dims.at(dim));
    near->dims.set(dim, which.dims.at(dim));
    EXPECT_EQ(*near, which);
  }
  return sizes;
}

TEST(NearCase, HasOneDimensionThatIsSmaller) {
  Op op = registry().op("dynamic_conv");
  EXPECT_EQ(sizes_near(op, case_of(16, 1024), "b"), (std::set<int64_t>{14, 15}));
  EXPECT_EQ(sizes_near(op, case_of(64, 1024), "b"), (std::set<int64_t>{56, 60}));
  EXPECT_EQ(sizes_near(op, case_of(66, 1024), "b"), (std::set<int64_t>{58, 60, 62, 64}));
  EXPECT_EQ(sizes_near(op, case_of(67, 1024), "b"), (std::set<int64_t>{59, 60, 61, 62, 63, 64, 65, 66}));
  EXPECT_EQ(sizes_near(op, case_of(15, 1024), "t"), (std::set<int64_t>{896, 960}));
  EXPECT_EQ(sizes_near(op, case_of(1, 16384), "t").size(), 32u);
  EXPECT_EQ(sizes_near(op, case_of(15, 15), "t"), std::set<int64_t>{});
  op.dims.front().min = 16;
  EXPECT_EQ(sizes_near(op, case_of(16, 1024), "b"), std::set<int64_t>{}) << "no path serves fewer";
}

// Beside the length 16.
class NearShapeOf : public testing::Test {
 protected:
  std::unique_ptr<NearShape> near_of(const Compute& run,
                                     const std::optional<std::string>& refusal = std::nullopt) {
    path_.run = run;
    path_.unsupported = [=](const Dims&, DType) { return refusal; };
    subject_.path = &path_;
    timed_.emplace(*subject_.op, path_, case_of(4, 16), *cpu_);
    return NearShape::make(subject_, *timed_, kSeed);
  }
  // Of all the timed calls.
  NearSamples samples_of(NearShape& near) {
    for (size_t i = 0; i < kNearCalls; ++i) {
      repeats_ &= near.call_and_flip();
      near.change_inputs();
      near.problem().run();
      near.add(static_cast<double>(i));
    }
    repeats_ &= near.call_and_flip();
    return near.take();
  }
  std::string fault_with(const Compute& run) {
    try {
      samples_of(*near_of(run));
      return "";
    } catch (const PathThrew& threw) {
      return threw.verdict.reason;
    }
  }

  std::unique_ptr<Device> cpu_ = open_cpu();
  Subject subject_ = registry().subject("dynamic_conv", "cpu");
  Path path_ = *subject_.path;
  Compute honest_ = path_.run;
  std::optional<Problem> timed_;
  bool repeats_ = true;
};

TEST_F(NearShapeOf, AnHonestPathIsRight) {
  const auto near = near_of(honest_);
  const NearSamples samples = samples_of(*near);
  EXPECT_TRUE(samples.which == case_of(4, 15) || samples.which == case_of(4, 14));
  EXPECT_EQ(timed_->step(), "a call of " + samples.which.to_string());
  EXPECT_EQ(samples.ns, (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(find_wrong_answer(subject_, samples, kSeed), std::nullopt);
  EXPECT_TRUE(repeats_);
}

TEST_F(NearShapeOf, APathThatRefusesItIsNotCalled) {
  EXPECT_FALSE(near_of([](const Call&) { FAIL(); }, "not any length"));
}

TEST_F(NearShapeOf, OneThatHasNoMemoryForItIsNotTimed) {
  EXPECT_FALSE(near_of([](const Call&) { throw OutOfMemory("no memory"); }));
}

TEST_F(NearShapeOf, FaultsAreTold) {
  EXPECT_THAT(fault_with([](const Call&) { throw Error("wrong length"); }),
              testing::StartsWith("wrong length, in a call of dynamic_conv/cpu/"));
}

TEST_F(NearShapeOf, ACallThatDoesNothingGivesOtherBits) {
  samples_of(*near_of([](const Call&) {}));
  EXPECT_FALSE(repeats_);
}

TEST_F(NearShapeOf, EachTimedCallIsRepeated) {
  const auto calls_without = [this](int idle) {
    int calls = 0;
    repeats_ = true;
    samples_of(*near_of([&](const Call& call) {
      if (++calls != idle) honest_(call);
    }));
    return calls;
  };
  const int calls = calls_without(0);
  EXPECT_TRUE(repeats_);
  for (size_t i = 0; i < kNearCalls; ++i) {
    const int timed = calls - 1 - 2 * static_cast<int>(i);
    EXPECT_EQ(calls_without(timed), calls);
    EXPECT_FALSE(repeats_) << timed << " of " << calls;
  }
}

// [us] What is said of calls of this time and one of another, beside timed ones.
std::string said(double timed, double near, double one_near) {
  NearSamples samples{.which = case_of(4, 15),
                      .recipe = {},
                      .ns = std::vector<double>(kNearCalls, 1e3 * near),
                      .outputs = {}};
  samples.ns[3] = 1e3 * one_near;
  return why_slower({.median = 1e3 * timed, .low = 1e3 * timed, .high = 1e3 * timed}, *open_cpu(), samples);
}

TEST(WhySlower, AQuarterOrAMillisecondDoesNotCount) {
  EXPECT_EQ(said(8000, 9999, 9999), "");
  EXPECT_EQ(said(8000, 10001, 10001),
            "a call of dynamic_conv/cpu/f32/b=4/t=15/d=8/w=4/data=normal/state=first_call/seed=0 takes "
            "1e+04 µs, and one of the timed problem 8000 µs");
  EXPECT_EQ(said(8000, 19999, 9999), "") << "one is shorter";
  EXPECT_NE(said(8000, 20001, 9999), "") << "but seems to be so on purpose";
  EXPECT_EQ(said(10, 1009, 1009), "");
  EXPECT_NE(said(10, 1011, 1011), "");
}

}  // namespace
}  // namespace assay
