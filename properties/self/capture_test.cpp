// SPDX-License-Identifier: Apache-2.0
// CUDA graphs of the production paths, as a user captures and replays them.
#include "properties/core/history.h"
#include "properties/core/untuned_call.h"
#include "properties/self/gpu.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using testing::HasSubstr;

class Capture : public testing::TestWithParam<const Op*> {
 protected:
  void SetUp() override {
    const test::Gpu gpu = test::gpu();
    if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
    device_ = gpu.device;
  }

  // A small problem for each CUDA path of the op, in each dtype.
  void for_each_problem(const std::function<void(Problem&)>& body) {
    const Op& op = *GetParam();
    const Dims dims = test::small_dims(op, 4);
    for (const Path& path : op.paths) {
      if (path.device != DeviceKind::kCuda) continue;
      for (DType dtype : path.dtypes) {
        if (path.unsupported && path.unsupported(dims, dtype)) continue;
        Case which{.op = std::string(op.name), .path = std::string(path.name), .dtype = dtype, .dims = dims};
        SCOPED_TRACE(which.to_string());
        Problem problem(op, path, which, *device_);
        problem.draw_inputs(1);
        body(problem);
      }
    }
  }

  // Checks that the outputs equal those of an untuned call on the same inputs in a new context.
  static void expect_right(Problem& problem) {
    const TensorBytes got = problem.outputs();
    EXPECT_EQ(first_difference(problem, got, outputs_of_untuned_call(problem)), std::nullopt);
  }

  Device* device_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Ops, Capture, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

// A capture neither tunes nor allocates. If a call would do either, its capture is refused until
// the call has been made directly. The stream is usable after the refusal, and one direct call is
// enough.
TEST_P(Capture, AsksForACallBefore) {
  for_each_problem([](Problem& problem) {
    std::string refusal;
    try {
      problem.capture();
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(Error::Kind::kUsage));
      refusal = error.what();
    }
    EXPECT_EQ(problem.context()->tuner().trials(), 0);
    problem.release_graph();
    problem.run();
    expect_right(problem);
    bool took_memory = false;
    problem.context()->workspace().for_each([&](void*, int64_t) { took_memory = true; });
    if (took_memory || problem.context()->tuner().trials() > 0) {
      EXPECT_THAT(refusal, HasSubstr("while a graph is captured"));
    } else {
      EXPECT_EQ(refusal, "");
    }
    problem.capture();
    problem.poison_outputs(Poison::kNan);
    problem.run();
    expect_right(problem);
  });
}

TEST_P(Capture, ReplaysSeeTheValuesOfTheirTime) {
  for_each_problem([](Problem& problem) {
    problem.run();
    problem.capture();
    for (uint64_t seed : {2u, 3u, 1u}) {
      problem.draw_inputs(seed);  // weights among them
      problem.poison_outputs(Poison::kNan);
      problem.run();
      expect_right(problem);
    }
  });
}

// They share working memory. Neither leaves anything there that the other reads.
TEST_P(Capture, ReplaysAndDirectCallsTakeTurns) {
  for_each_problem([this](Problem& problem) {
    problem.run();
    problem.capture();
    for (uint64_t seed : {2u, 3u}) {
      problem.draw_inputs(seed);
      problem.poison_outputs(Poison::kNan);
      problem.run_directly(device_->stream());
      expect_right(problem);
      problem.context()->workspace().for_each([this](void* data, int64_t bytes) {
        device_->fill(data, static_cast<unsigned char>(Poison::kNan), bytes, device_->stream());
      });
      problem.draw_inputs(seed + 10);
      problem.poison_outputs(Poison::kNan);
      problem.run();
      expect_right(problem);
    }
  });
}

}  // namespace
}  // namespace assay
