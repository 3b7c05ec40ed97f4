// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// The GPU as a device of the harness, and its timer: what the timer must see and what it must not.
#include "kernels/core_cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "bench/core/ceilings.h"
#include "bench/core/cuda_copy.h"
#include "bench/core/telemetry.h"
#include "kernels/core/build.h"

namespace assay {
namespace {

class Cuda : public testing::Test {
 protected:
  void SetUp() override {
    if constexpr (!kHasCuda) {
      GTEST_SKIP() << "this build has no CUDA";
    } else {
      if (cuda_device_count() == 0) GTEST_SKIP() << cuda_unavailable_reason();
      device_ = open_cuda(0);
    }
  }

  // [s] The time of `copies` copies of 256 MiB.
  double copy_seconds(int copies) {
    constexpr int64_t kBytes = int64_t{256} << 20;
    const DeviceBuffer from(*device_, kBytes);
    const DeviceBuffer to(*device_, kBytes);
    double seconds = 0;
    if constexpr (kHasCuda) {
      for (int run = 0; run < 3; ++run) {  // the last of three: clocks and pages have settled
        seconds = device_->time([&] {
          for (int i = 0; i < copies; ++i) cuda_copy(to.data(), from.data(), kBytes, device_->stream());
        });
      }
    }
    return seconds;
  }

  std::unique_ptr<Device> device_;
};

TEST(CudaAbsent, IsSaidInOneSentence) {
  if constexpr (kHasCuda) {
    EXPECT_EQ(cuda_device_count() == 0, !cuda_unavailable_reason().empty());
    try {
      open_cuda(cuda_device_count());
      FAIL() << "opened a GPU that is not there";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::kDevice);
      EXPECT_NE(std::string(error.what()).find(fmt::format("cuda:{}", cuda_device_count())),
                std::string::npos);
    }
  } else {
    GTEST_SKIP() << "this build has no CUDA";
  }
}

TEST_F(Cuda, RenewedStreamsAreOthersAndWork) {
  const uint64_t own = device_->stream_id(device_->stream()),
                 other = device_->stream_id(device_->other_stream());
  device_->renew_streams();
  const uint64_t now = device_->stream_id(device_->stream());
  EXPECT_NE(now, own);
  EXPECT_NE(now, other);
  EXPECT_NE(device_->stream_id(device_->other_stream()), other);
  EXPECT_GT(copy_seconds(1), 0);
}

TEST_F(Cuda, CopiesThereAndBack) {
  std::vector<unsigned char> sent(1'000'003);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<unsigned char>(i * 131 + 7);
  std::vector<unsigned char> got(sent.size());
  const auto bytes = static_cast<int64_t>(sent.size());
  const DeviceBuffer buffer(*device_, bytes);
  device_->copy_to_device(buffer.data(), sent.data(), bytes);
  device_->flush_cache();
  device_->copy_to_host(got.data(), buffer.data(), bytes);
  EXPECT_EQ(sent, got);
}

// Uses the last GPU. If there are several, a new thread begins with another one.
TEST_F(Cuda, ServesEveryThread) {
  if constexpr (kHasCuda) {
    const std::unique_ptr<Device> device = open_cuda(cuda_device_count() - 1);
    std::vector<unsigned char> got(1000);
    std::string error;
    std::thread([&] {
      try {
        const DeviceBuffer buffer(*device, 1000);
        device->fill(buffer.data(), 7, 1000, device->stream());
        device->copy_to_host(got.data(), buffer.data(), 1000);
        device->time([&] { device->fill(buffer.data(), 8, 1000, device->other_stream()); },
                     device->other_stream());
        device->flush_cache();
        device->synchronize();
        EXPECT_FALSE(device->is_capturing(device->stream()));
      } catch (const Error& thrown) {
        error = thrown.what();
      }
    }).join();
    EXPECT_EQ(error, "");
    EXPECT_EQ(got, std::vector<unsigned char>(1000, 7));
  }
}

TEST_F(Cuda, TellsStreamsApart) {
  const uint64_t first = device_->stream_id(device_->stream());
  EXPECT_EQ(device_->stream_id(device_->stream()), first);
  EXPECT_NE(device_->stream_id(device_->other_stream()), first);
  EXPECT_NE(device_->stream_id(nullptr), first);
}

TEST_F(Cuda, RefusesMoreMemoryThanThereIs) {
  EXPECT_THROW(device_->allocate(2 * device_->info().memory_bytes), Error);
  EXPECT_NO_THROW(device_->synchronize()) << "the refusal must not stick";
}

// No work takes next to no time, and ten copies take about ten times as long as one.
TEST_F(Cuda, TimerSeesTheWorkAndNothingElse) {
  EXPECT_LT(device_->time([] {}), 10e-6);
  const double ratio = copy_seconds(10) / copy_seconds(1);
  EXPECT_GT(ratio, 8);
  EXPECT_LT(ratio, 12);
}

TEST_F(Cuda, CeilingsAreThoseOfAGpu) {
  const Ceilings ceilings = measure_ceilings(*device_);
  EXPECT_GT(ceilings.copy_bytes_per_s, 1e11);
  EXPECT_GT(ceilings.read_bytes_per_s, 0.9 * ceilings.copy_bytes_per_s);
  EXPECT_GT(ceilings.product_flops_per_s.at(Format::kStored), 1e12);
  EXPECT_GT(ceilings.product_flops_per_s.at(Format::kTF32),
            2 * ceilings.product_flops_per_s.at(Format::kStored));
  for (const Format factor : {Format::kF16, Format::kBF16})
    EXPECT_GT(ceilings.product_flops_per_s.at(factor), ceilings.product_flops_per_s.at(Format::kTF32));
}

// Against a GPU that works. A machine that hides NVML from us says so.
TEST_F(Cuda, IsWatchedWhileItWorks) {
  const auto monitor = open_monitor(device_->info());
  const DeviceState state = monitor->state();
  if (!state.uuid) GTEST_SKIP() << state.absent.begin()->first;
  EXPECT_EQ(state.uuid->substr(0, 4), "GPU-");
  Watch watch(*monitor);
  copy_seconds(1000);
  const Telemetry seen = watch.stop();
  EXPECT_GE(seen.readings, 2);
  ASSERT_TRUE(seen.clock_mhz);
  EXPECT_GT(seen.clock_mhz->most, 100);
  EXPECT_GT(seen.power_w.value_or(100), 10);
  EXPECT_LT(seen.power_w.value_or(0), 2 * state.power_limit_w.value_or(1e4));
  // Looking takes a small part of the interval.
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) monitor->glance();
  const std::chrono::duration<double, std::milli> glance = (std::chrono::steady_clock::now() - begin) / 20;
  RecordProperty("glance_ms", std::to_string(glance.count()));
  EXPECT_LT(glance.count(), 10) << "[ms]";
}

}  // namespace
}  // namespace assay
