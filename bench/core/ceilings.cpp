// SPDX-License-Identifier: Apache-2.0
#include "bench/core/ceilings.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "bench/core/cpu_copy.h"
#include "bench/core/cuda_copy.h"
#include "bench/core/measure.h"
#include "kernels/core/build.h"
#include "kernels/core/parallel.h"
#include "properties/core/random.h"

namespace assay {
namespace {

// Work on two buffers of `bytes`: a copy, or a read of `from` that leaves `to` as it is.
struct Work {
  std::string name;
  std::function<void(void* to, const void* from, int64_t bytes)> run;
};

struct Candidates {
  std::vector<Work> copies;
  Work read;
};

Candidates candidates_for(Device& device) {
  if (device.info().kind == DeviceKind::kCpu) {
    const auto parallel_memcpy = [](void* to, const void* from, int64_t bytes) {
      constexpr int64_t kGrain = int64_t{8} << 20;
      parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
        std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                    static_cast<size_t>(end - begin));
      });
    };
    const auto read = [](void*, const void* from, int64_t bytes) {
      benchmark::DoNotOptimize(streaming_read(from, bytes));
    };
    return {{{"streaming stores", streaming_copy}, {"memcpy", parallel_memcpy}}, {"read", read}};
  }
  if constexpr (kHasCuda) {
    void* stream = device.stream();
    const auto on_stream = [stream](auto work) {
      return [stream, work](void* to, const void* from, int64_t bytes) { work(to, from, bytes, stream); };
    };
    return {{{"copy kernel", on_stream(cuda_copy)}, {"cudaMemcpyAsync", on_stream(cuda_memcpy)}},
            {"read kernel", on_stream(cuda_read)}};
  }
  throw Error("no copy is known for the device {}", device.info().name());
}

// Bytes that no memory can compress.
void fill_with_noise(Device& device, const DeviceBuffer& buffer) {
  constexpr int64_t kWords = int64_t{1} << 20;
  const CounterRandom random(0, 0);
  std::vector<uint64_t> noise(kWords);
  for (int64_t i = 0; i < kWords; ++i) noise[static_cast<size_t>(i)] = random.bits(static_cast<uint64_t>(i));
  constexpr int64_t kBytes = kWords * 8;
  for (int64_t at = 0; at < buffer.bytes(); at += kBytes) {
    device.copy_to_device(static_cast<char*>(buffer.data()) + at, noise.data(),
                          std::min(kBytes, buffer.bytes() - at));
  }
}

double median_seconds(Device& device, const Work& work, const DeviceBuffer& to, const DeviceBuffer& from) {
  constexpr int kRepeats = 11;
  work.run(to.data(), from.data(), from.bytes());  // touches every page
  device.synchronize();
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    seconds.push_back(device.time([&] { work.run(to.data(), from.data(), from.bytes()); }));
  }
  return median_interval(seconds).median;
}

}  // namespace

Ceilings measure_ceilings(Device& device) {
  // Far beyond the caches, and a small part of the memory.
  const int64_t beyond_caches = std::max(4 * device.info().cache_bytes, int64_t{1} << 30);
  const int64_t bytes = std::min(beyond_caches, device.info().memory_bytes / 8) / 4096 * 4096;
  const DeviceBuffer from(device, bytes);
  const DeviceBuffer to(device, bytes);
  fill_with_noise(device, from);
  const Candidates candidates = candidates_for(device);
  Ceilings best;
  for (const Work& copy : candidates.copies) {
    const double rate = 2 * static_cast<double>(bytes) / median_seconds(device, copy, to, from);
    if (rate > best.copy_bytes_per_s) {
      best.copy_bytes_per_s = rate;
      best.copy_method = fmt::format("{}, {} MiB", copy.name, bytes >> 20);
    }
  }
  best.read_bytes_per_s = static_cast<double>(bytes) / median_seconds(device, candidates.read, to, from);
  return best;
}

}  // namespace assay
