// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// The step other_schedule: what hides in the usual order of ranges, in idle multiprocessors and in
// an idle second stream shows in it.
#include <atomic>
#include <cstring>
#include <mutex>

#include "kernels/core/parallel.h"
#include "properties/self/gpu.h"
#include "properties/self/spoiled.h"

#if ASSAY_HAS_CUDA
#include "properties/self/planted_kernels.h"
#endif

namespace assay {
namespace {

using test::expect;
using test::judge_path;
using test::output;
using test::spoiled;
using testing::HasSubstr;

constexpr int64_t kMany = 1'000'000;

Case on_other_schedule(std::string_view state = "other_schedule") {
  Case which = test::small_case();
  which.state = parse_state(state);
  return which;
}

// What the items do in the order in which they begin.
std::vector<int64_t> order_of(int64_t count, uint64_t seed) {
  const OtherSchedule schedule(seed);
  std::vector<int64_t> order;
  std::mutex mutex;
  parallel_for(count, kMany, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    for (int64_t item = begin; item < end; ++item) order.push_back(item);
  });
  return order;
}

TEST(OtherSchedule, TakesEachItemOnceInAnotherOrder) {
  int in_order = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const int64_t count : {1, 2, 3, 64, 1000, 70'000}) {
      if (count > 1000 && seed > 0) continue;
      std::vector<int64_t> order = order_of(count, seed);
      if (count > 3 && std::ranges::is_sorted(order)) ++in_order;
      std::ranges::sort(order);
      ASSERT_EQ(static_cast<int64_t>(order.size()), count);
      for (int64_t item = 0; item < count; ++item) ASSERT_EQ(order[static_cast<size_t>(item)], item);
    }
  }
  EXPECT_LE(in_order, 10);
}

TEST(OtherSchedule, EndsWithItsLife) {
  order_of(10, 1);
  int ranges = 0;
  parallel_for(10, 10, [&](int64_t begin, int64_t end) { ranges += begin == 0 && end == 10 ? 1 : 100; });
  EXPECT_EQ(ranges, 1);
}

// Items take longer and longer, since threads of a busy machine wake late.
TEST(OtherSchedule, RunsItemsSideBySide) {
  int met = 0;
  for (uint64_t seed = 0; met < 10 && seed < 300; ++seed) {
    const OtherSchedule schedule(seed);
    std::atomic<int> inside = 0;
    std::atomic<bool> have_met = false;
    parallel_for(8, kMany, [&](int64_t, int64_t) {
      if (++inside > 1) have_met = true;
      std::this_thread::sleep_for(std::chrono::microseconds(100 * (1 + seed)));
      --inside;
    });
    if (have_met) ++met;
  }
  EXPECT_EQ(met, 10);
}

// The sum of all items is right in any order; its bits are not the same.
TEST(OtherSchedule, ShowsASumInTheOrderOfRanges) {
  const Path path = spoiled([](const Call& call) {
    float sum = 0;
    std::mutex mutex;
    parallel_for(1000, kMany, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const std::lock_guard lock(mutex);
        sum += 1.0f / static_cast<float>(i + 1);
      }
    });
    uint32_t bits = 0;
    std::memcpy(&bits, &sum, sizeof bits);
    if (bits % 2 == 1) *output(call) = std::nextafter(*output(call), 2.0f);
  });
  const Oracle oracle = test::loose_oracle(2);
  expect(judge_path(path, on_other_schedule("warm"), &oracle), VerdictKind::kPass, testing::_);
  expect(judge_path(path, on_other_schedule(), &oracle), VerdictKind::kFail,
         HasSubstr("the second on another schedule"));
}

// Its second run is compared with nothing, so the first one is on another schedule.
TEST(OtherSchedule, JudgesPathsThatAreNotDeterministic) {
  Path path = spoiled([](const Call& call) {
    std::atomic is_first = true, has_failed = false;
    parallel_for(100, kMany, [&](int64_t begin, int64_t) {
      if ((begin > 0) == is_first.exchange(false)) has_failed = true;
    });
    if (has_failed) *output(call) += 1;
  });
  path.deterministic = false;
  expect(judge_path(path, on_other_schedule("warm")), VerdictKind::kPass, testing::_);
  expect(judge_path(path, on_other_schedule()), VerdictKind::kFail, HasSubstr("1 of"));
}

TEST(OtherSchedule, MemoryAroundOutputsIsWatchedInIt) {
  const Path path = spoiled([](const Call& call) {
    parallel_for(2, kMany, [&](int64_t begin, int64_t end) {
      if (begin == 0 && end == 1) output(call)[-1] = 1;
    });
  });
  expect(judge_path(path, on_other_schedule()), VerdictKind::kFail, HasSubstr("memory around out"));
}

#if ASSAY_HAS_CUDA

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu_.device == nullptr) GTEST_SKIP() << gpu_.why_not;
  }

  static Case large_case(std::string_view state) {
    return parse_case(fmt::format("dynamic_conv/cuda/f32/b=2/t=512/d=256/w=4/state={}/seed=3", state));
  }

  test::Gpu gpu_ = test::gpu();
};

using OtherScheduleOnGpu = OnGpu;
using CudaDelays = OnGpu;
using SanitizerControl = OnGpu;

TEST_F(OtherScheduleOnGpu, RightPathsPass) {
  const Path& path = registry().op("dynamic_conv").path("cuda");
  for (std::string_view state : {"other_schedule", "graph_replay+other_schedule", "warm+other_schedule"})
    expect(judge_path(path, large_case(state), nullptr, *gpu_.device), VerdictKind::kPass, testing::_);
}

TEST_F(OtherScheduleOnGpu, ShowsAWorkspaceThatStreamsShare) {
  Device& device = *gpu_.device;
  const DeviceBuffer shared(device, int64_t{2} << 20);
  Path path = registry().op("dynamic_conv").path("cuda");
  path.run = [&, run = path.run](const Call& call) {
    Call aside = call;
    aside.outputs[0].data = shared.data();
    run(aside);
    const int64_t bytes = call.outputs[0].size() * int64_t{sizeof(float)};
    device.copy(call.outputs[0].data, shared.data(), bytes, call.stream);
  };
  expect(judge_path(path, large_case("warm"), nullptr, device), VerdictKind::kPass, testing::_);
  expect(judge_path(path, large_case("other_schedule"), nullptr, device), VerdictKind::kFail,
         HasSubstr("the second on another schedule"));
}

TEST_F(OtherScheduleOnGpu, ShowsAtomicsInPlaceOfAnOrderedSum) {
  const Path path = [&] {
    Path spoiled = registry().op("dynamic_conv").path("cuda");
    spoiled.run = [run = spoiled.run](const Call& call) {
      run(call);
      const auto scratch = context_of(call).workspace().lease(4, call.stream);
      test::unordered_sum(output(call), scratch.as<float>(), call.stream);
    };
    return spoiled;
  }();
  EXPECT_EQ(judge_path(path, large_case("other_schedule"), nullptr, *gpu_.device).kind, VerdictKind::kFail);
}

TEST_F(CudaDelays, ShowAMissingBarrier) {
  if (!test::has_cuda_delays()) GTEST_SKIP() << "this build has no ASSAY_CUDA_DELAYS=ON";
  EXPECT_EQ(test::count_overtaken(true), 0);
  EXPECT_GT(test::count_overtaken(false), 1000);
}

// scripts/gpu_check runs each under its tool, which has to report it.
TEST_F(SanitizerControl, memcheck) {
  test::run_fault_for("memcheck");
}
TEST_F(SanitizerControl, racecheck) {
  test::run_fault_for("racecheck");
}
TEST_F(SanitizerControl, initcheck) {
  test::run_fault_for("initcheck");
}
TEST_F(SanitizerControl, synccheck) {
  test::run_fault_for("synccheck");
}

#endif

}  // namespace
}  // namespace assay
