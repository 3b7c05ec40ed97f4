// SPDX-License-Identifier: Apache-2.0
// Marks: threads
#include "bench/core/near_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bench/core/measure.h"
#include "kernels/core/error.h"
#include "properties/core/registry.h"

namespace assay {
namespace {

constexpr uint64_t kSeed = 17;

Case case_of_batch(int64_t batch) {
  return {.op = "dynamic_conv", .path = "cpu", .dims = {{"b", batch}, {"t", 16}, {"d", 8}, {"w", 4}}};
}

std::set<int64_t> batches_near(const Op& op, int64_t batch) {
  std::set<int64_t> batches;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::optional<Case> near = near_case(op, case_of_batch(batch), seed);
    if (near) batches.insert(near->dims.at("b"));
  }
  return batches;
}

TEST(NearCase, HasAnotherOutermostDimension) {
  Op op = registry().op("dynamic_conv");
  EXPECT_EQ(batches_near(op, 64), (std::set<int64_t>{56, 57, 58, 59, 60, 61, 62, 63}));
  EXPECT_EQ(batches_near(op, 16), (std::set<int64_t>{14, 15}));
  EXPECT_EQ(batches_near(op, 15), std::set<int64_t>{14});
  EXPECT_EQ(batches_near(op, 2), std::set<int64_t>{1});
  EXPECT_EQ(batches_near(op, 1), std::set<int64_t>{2});
  EXPECT_EQ(batches_near(op, 0), std::set<int64_t>{});
  op.dims.front().max = 1;
  EXPECT_EQ(batches_near(op, 1), std::set<int64_t>{}) << "no path serves two";
  op.dims.front().min = 4;
  EXPECT_EQ(batches_near(op, 4), std::set<int64_t>{}) << "no path serves three";
}

// What a path does with the batch 3, beside a problem of batch 4.
class NearShapeOf : public testing::Test {
 protected:
  std::unique_ptr<NearShape> near_of(const std::function<void(const Call&)>& with_three,
                                     int64_t refused = 0) {
    path_.run = [=, run = path_.run](const Call& call) {
      call.dims.at("b") == 3 ? with_three(call) : run(call);
    };
    path_.unsupported = [=](const Dims& dims, DType) {
      return dims.at("b") == refused ? std::optional<std::string>("not this batch") : std::nullopt;
    };
    subject_.path = &path_;
    timed_.emplace(*subject_.op, path_, case_of_batch(4), *cpu_);
    timed_->set_observer([this](std::string_view step) { steps_.emplace_back(step); });
    return NearShape::make(subject_, *timed_, kSeed);
  }
  std::string fault_with(const std::function<void(const Call&)>& with_three) {
    try {
      near_of(with_three);
      return "";
    } catch (const PathThrew& threw) {
      return threw.verdict.reason;
    }
  }

  std::unique_ptr<Device> cpu_ = open_cpu();
  Subject subject_ = registry().subject("dynamic_conv", "cpu");
  Path path_ = *subject_.path;
  std::optional<Problem> timed_;
  std::vector<std::string> steps_;
};

TEST_F(NearShapeOf, EveryPathIsCalledOnIt) {
  const auto near = near_of(registry().subject("dynamic_conv", "cpu").path->run);
  ASSERT_TRUE(near);
  EXPECT_EQ(near->problem().which(), case_of_batch(3));
  EXPECT_THAT(steps_, testing::Contains("the first run with b=3"));
  for (size_t i = 0; i < kNearCalls; ++i) {
    near->call_and_flip();
    near->change_inputs();
    near->problem().run();
    near->add(static_cast<double>(i));
  }
  const NearSamples samples = near->take();
  EXPECT_EQ(samples.ns, (std::vector<double>{0, 1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(samples.outputs.size(), 1u);
  EXPECT_EQ(find_wrong_answer(subject_, samples, kSeed), std::nullopt);
}

TEST_F(NearShapeOf, APathThatRefusesItIsNotCalled) {
  EXPECT_FALSE(near_of([](const Call&) { FAIL(); }, 3));
}

TEST_F(NearShapeOf, OneThatHasNoMemoryForItIsNotTimed) {
  EXPECT_FALSE(near_of([](const Call&) { throw OutOfMemory("no memory"); }));
}

TEST_F(NearShapeOf, FaultsNameTheShape) {
  EXPECT_EQ(fault_with([](const Call&) { throw Error("three is one too many"); }),
            "with b=3: three is one too many, in the first run");
  EXPECT_EQ(fault_with([](const Call&) {}),
            "with b=3: out[0, 0, 0] still holds what was there before the call");
}

// [us] What is said of seven equal calls, beside others that took `timed`.
std::string said(int64_t batch, double timed, double near) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("dynamic_conv", "cpu");
  const Problem problem(*subject.op, *subject.path, case_of_batch(batch), *cpu);
  const NearSamples samples{.which = near_case(*subject.op, case_of_batch(batch), kSeed).value(),
                            .recipe = {},
                            .ns = std::vector<double>(kNearCalls, 1e3 * near),
                            .outputs = {}};
  return slower_than({.median = 1e3 * timed, .low = 1e3 * timed, .high = 1e3 * timed}, problem, samples);
}

TEST(NearShape, MayTakeAQuarterLonger) {
  EXPECT_EQ(said(4, 8000, 9999), "");
  EXPECT_EQ(said(4, 8000, 10001), "a call takes 1e+04 us with b=3, and 8000 us with b=4");
  EXPECT_EQ(said(1, 4000, 9999), "") << "twice the size";
  EXPECT_EQ(said(1, 2000, 5002), "a call takes 5002 us with b=2, and 2000 us with b=1");
  EXPECT_EQ(said(4, 10, 1009), "") << "a millisecond on a CPU";
  EXPECT_EQ(said(4, 10, 1011), "a call takes 1011 us with b=3, and 10 us with b=4");
}

}  // namespace
}  // namespace assay
