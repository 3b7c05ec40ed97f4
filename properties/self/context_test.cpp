// SPDX-License-Identifier: Apache-2.0
// Marks: threads
#include "kernels/core/context.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "properties/self/tuner_support.h"

namespace assay {
namespace {

using test::cpu;
using test::error_of;
using test::SimulatedDevice;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Blocks that are not leased.
int free_blocks(Workspace& workspace) {
  int blocks = 0;
  workspace.for_each([&](void*, int64_t) { ++blocks; });
  return blocks;
}

TEST(Workspace, BlocksGoBackToTheirStream) {
  Workspace workspace(cpu());
  int a = 0, b = 0;
  std::vector<void*> blocks_of_a;
  {
    const Workspace::Lease first = workspace.lease(1000, &a);
    const Workspace::Lease second = workspace.lease(1000, &a);
    EXPECT_NE(second.data(), first.data());
    blocks_of_a = {first.data(), second.data()};
  }
  EXPECT_NE(workspace.lease(10, &b).data(), nullptr);
  EXPECT_EQ(free_blocks(workspace), 3);
  workspace.for_each([](void*, int64_t bytes) { EXPECT_GE(bytes, 10); });
  const Workspace::Lease again = workspace.lease(900, &a);
  EXPECT_EQ(std::ranges::count(blocks_of_a, again.data()), 1);
  EXPECT_EQ(free_blocks(workspace), 2);
  const Workspace::Lease kept = workspace.lease_to_keep(900, &a);
  EXPECT_EQ(std::ranges::count(blocks_of_a, kept.data()), 0) << "1000 bytes are more than 900";
}

// A replay may come at any time between two calls.
TEST(Workspace, NothingIsKeptWhereAGraphWrites) {
  SimulatedDevice device(false, false);
  Workspace workspace(device);
  const void* const block = workspace.lease(64, nullptr).data();
  EXPECT_EQ(workspace.lease_to_keep(64, nullptr).data(), block);
  device.start_capture();
  EXPECT_EQ(workspace.lease(64, nullptr).data(), block);
  device.end_capture();
  EXPECT_NE(workspace.lease_to_keep(64, nullptr).data(), block);
  EXPECT_EQ(workspace.lease(60, nullptr).data(), block) << "for one call it may be used";
}

TEST(Workspace, DoesNotAllocateWhileAGraphIsCaptured) {
  SimulatedDevice device(true, false);
  Workspace workspace(device);
  EXPECT_THAT(error_of([&] { workspace.lease(64, nullptr); }),
              AllOf(HasSubstr("64 bytes"), HasSubstr("once")));
}

TEST(Workspace, ANewStreamWithAnOldHandleGetsItsOwnBlocks) {
  SimulatedDevice device(false, false);
  Workspace workspace(device);
  const void* const old = workspace.lease(64, nullptr).data();
  EXPECT_EQ(workspace.lease(64, nullptr).data(), old);
  device.replace_streams();
  EXPECT_NE(workspace.lease(64, nullptr).data(), old);
}

TEST(Workspace, ThreadsNeverShareABlock) {
  Workspace workspace(cpu());
  constexpr int kThreads = 8;
  constexpr int64_t kCount = 300;
  std::atomic<int> disturbed = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const Workspace::Lease lease = workspace.lease(4 * kCount, nullptr);
        int* const data = lease.as<int>();
        std::fill_n(data, kCount, t);
        std::this_thread::yield();
        if (std::count(data, data + kCount, t) != kCount) ++disturbed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(disturbed, 0);
  // Each thread holds one block at a time. A small block does not serve all.
  EXPECT_LE(free_blocks(workspace), 8 * 8);
}

// Tensors of one number: the number of tensors made before.
struct Numbered {
  explicit Numbered(Device& device) : context(device) {}

  DerivedTensors::Held get(const std::vector<DerivedTensors::Source>& sources,
                           const std::string& name = "cast", void* stream = nullptr) {
    return context.derived().get(name, sizeof(int), sources, stream, [&](void* data) {
      const int number = ++made;
      std::memcpy(data, &number, sizeof number);
    });
  }
  static int number_in(const DerivedTensors::Held& held) {
    int number = 0;
    std::memcpy(&number, held.data(), sizeof number);
    return number;
  }
  int operator()(const std::vector<DerivedTensors::Source>& sources, const std::string& name = "cast") {
    return number_in(get(sources, name));
  }

  Context context;
  int made = 0;
};

TEST(DerivedTensors, AreMadeAnewForEveryNewVersion) {
  Numbered number(cpu());
  const int here = 0, there = 0;
  const uint64_t version = new_version();
  EXPECT_EQ(number({{version, &here}}), 1);
  EXPECT_EQ(number({{version, &here}}), 1);
  EXPECT_EQ(number({{version, &there}}), 1);  // equal values at any address
  EXPECT_EQ(number({{new_version(), &here}}), 2);
  EXPECT_EQ(number({{version, &there}}), 1);
  EXPECT_EQ(number({{version, &here}}, "other"), 3);
  EXPECT_EQ(number({{version, &here}, {version, &there}}), 4);
  EXPECT_EQ(number({{version, &here}, {new_version(), &there}}), 5);
  EXPECT_EQ(number({}), 6);  // the values are unknown
  EXPECT_EQ(number({}), 7);
  EXPECT_EQ(number({{0, &here}}), 8);
  EXPECT_EQ(number({{version, &here}, {0, &there}}), 9);
}

// In training each step has new values at the same addresses.
TEST(DerivedTensors, OldVersionsAtTheSameAddressAreDropped) {
  Numbered number(cpu());
  constexpr int kLayers = 3, kSteps = 500;
  const int weights[kLayers] = {};
  int used = 0;
  for (int step = 0; step < kSteps; ++step) {
    for (const int& weight : weights) {
      const uint64_t version = new_version();
      EXPECT_EQ(number({{version, &weight}}), number({{version, &weight}}));
      ++used;
    }
  }
  EXPECT_EQ(number.made, used);
  EXPECT_EQ(number.context.derived().count(), kLayers);
  EXPECT_LE(free_blocks(number.context.workspace()), 2) << "the memory of old versions is used again";
}

TEST(DerivedTensors, WhatIsInUseOutlivesItsVersion) {
  Numbered number(cpu());
  const int weight = 0;
  const auto first = number.get({{new_version(), &weight}});
  const auto second = number.get({{new_version(), &weight}});
  EXPECT_EQ(number.context.derived().count(), 1);
  EXPECT_NE(first.data(), second.data());
  EXPECT_EQ(Numbered::number_in(first), 1);
  EXPECT_EQ(Numbered::number_in(second), 2);
}

TEST(DerivedTensors, AreBoundedInNumber) {
  Numbered number(cpu());
  const std::vector<int> weights(1000);
  for (const int& weight : weights) number({{new_version(), &weight}});
  EXPECT_EQ(number.context.derived().count(), 256);
}

TEST(DerivedTensors, WhileAGraphIsCapturedTheyAreMadeInMemoryOfTheCallBefore) {
  SimulatedDevice device(false, false);
  Numbered number(device);
  const int weight = 0;
  const uint64_t version = new_version();
  EXPECT_EQ(number({{version, &weight}}), 1);
  device.start_capture();
  EXPECT_EQ(number({{version, &weight}}), 2);  // replays must see new values
}

// Two layers have the same shape. The graph of the first is replayed between two calls of the
// second.
TEST(DerivedTensors, AReplayLeavesWhatIsKeptForOthersAlone) {
  SimulatedDevice device(false, false);
  Numbered number(device);
  const int weights[4] = {};
  const uint64_t versions[] = {new_version(), new_version(), new_version(), new_version()};
  const auto call = [&](size_t layer) {
    const auto first = number.get({{versions[2 * layer], &weights[2 * layer]}});
    const auto second = number.get({{versions[2 * layer + 1], &weights[2 * layer + 1]}});
    return std::array{first.data(), second.data()};
  };
  call(0);
  device.start_capture();
  const auto captured = call(0);
  device.end_capture();
  for (const void* kept : call(1)) EXPECT_EQ(std::ranges::count(captured, kept), 0);
}

TEST(Context, ReleasesWhatItKeepsForAStream) {
  Numbered number(cpu());
  Workspace& workspace = number.context.workspace();
  int a = 0, b = 0;
  const uint64_t version = new_version();
  number.get({{version, &a}}, "cast", &a);
  number.get({{version, &a}}, "cast", &b);
  const Workspace::Lease leased = workspace.lease(1 << 20, &a);
  EXPECT_EQ(number.context.derived().count(), 2);
  number.context.release(&a);
  EXPECT_EQ(number.context.derived().count(), 1);
  EXPECT_EQ(free_blocks(workspace), 1) << "that of the other stream stays";
  std::memset(leased.data(), 0, 1 << 20);  // leased memory stays, too
}

TEST(DerivedTensors, ThreadsGetWhatTheyAskFor) {
  Context context(cpu());
  constexpr int kThreads = 8, kSteps = 50, kWeights = 4, kCount = 300;
  const int weights[kWeights] = {};
  uint64_t versions[kSteps][kWeights];
  for (auto& of_step : versions) std::ranges::generate(of_step, new_version);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (const auto& of_step : versions) {
        for (int w = 0; w < kWeights; ++w) {
          const uint64_t version = of_step[w];
          const auto held = context.derived().get(
              "cast", kCount * int64_t{sizeof(version)}, {{version, &weights[w]}}, nullptr,
              [&](void* data) { std::fill_n(static_cast<uint64_t*>(data), kCount, version); });
          std::this_thread::yield();  // others may drop this version now
          const auto* const data = static_cast<const uint64_t*>(held.data());
          if (std::count(data, data + kCount, version) != kCount) ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(context.derived().count(), kWeights);
}

}  // namespace
}  // namespace assay
