// SPDX-License-Identifier: Apache-2.0
#include "bench/core/ceilings.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

#include "bench/core/cpu_copy.h"
#include "bench/core/cpu_products.h"
#include "bench/core/cuda_copy.h"
#include "bench/core/keep.h"
#include "bench/core/measure.h"
#include "kernels/core/build.h"
#include "kernels/core/context.h"
#include "kernels/core/parallel.h"
#include "kernels/core_cuda/cublas.h"
#include "properties/core/host_memory.h"
#include "properties/core/random.h"

namespace assay {
namespace {

// Work on two buffers of `bytes`: a copy, or a read that leaves them as they are.
struct Work {
  std::string name;
  std::function<void(void* to, const void* from, int64_t bytes)> run;
  int buffers = 2;  // that it touches
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
    const auto read = [](void* to, const void* from, int64_t bytes) {
      keep(streaming_read(from, bytes) ^ streaming_read(to, bytes));
    };
    return {{{"streaming stores", streaming_copy}, {"memcpy", parallel_memcpy}}, {"read", read}};
  }
  if constexpr (kHasCuda) {
    void* stream = device.stream();
    const auto on_stream = [stream](auto work) {
      return [stream, work](void* to, const void* from, int64_t bytes) { work(to, from, bytes, stream); };
    };
    return {{{"copy kernel", on_stream(cuda_copy)}, {"cudaMemcpyAsync", on_stream(cuda_memcpy)}},
            {"read kernel", on_stream(cuda_read), 1}};
  }
  throw Error("no copy is known for the device {}", device.info().name());
}

// Fills a buffer with copies of `bytes`.
void fill_with(Device& device, const DeviceBuffer& buffer, std::span<const std::byte> bytes) {
  const auto step = static_cast<int64_t>(bytes.size());
  for (int64_t at = 0; at < buffer.bytes(); at += step) {
    device.copy_to_device(static_cast<char*>(buffer.data()) + at, bytes.data(),
                          std::min(step, buffer.bytes() - at));
  }
}

// Bytes that no memory can compress.
void fill_with_noise(Device& device, const DeviceBuffer& buffer) {
  constexpr int64_t kWords = int64_t{1} << 20;
  const CounterRandom random(0, 0);
  std::vector<uint64_t> noise(kWords);
  for (int64_t i = 0; i < kWords; ++i) noise[static_cast<size_t>(i)] = random.bits(static_cast<uint64_t>(i));
  fill_with(device, buffer, std::as_bytes(std::span(noise)));
}

// Of 11 repeats. Of long ones, which scatter less, as many as take a third of a second, at least 5.
double median_seconds(Device& device, const std::function<void()>& work) {
  constexpr size_t kMost = 11, kLeast = 5;
  constexpr double kEnough = 1.0 / 3;  // [s]
  work();                              // touches every page
  device.synchronize();
  std::vector<double> seconds;
  for (double all = 0; seconds.size() < (all < kEnough ? kMost : kLeast); all += seconds.back())
    seconds.push_back(device.time(work));
  return median_interval(seconds).median;
}

// [bytes/s] Read and written together.
double rate_of(Device& device, const Work& work, const DeviceBuffer& to, const DeviceBuffer& from) {
  const double seconds = median_seconds(device, [&] { work.run(to.data(), from.data(), from.bytes()); });
  return work.buffers * static_cast<double>(from.bytes()) / seconds;
}

// How cuBLASLt takes a factor.
struct ProductFormat {
  Format factor;
  DType dtype;
  bool allows_tf32;
};
constexpr ProductFormat kProductFormats[] = {{Format::kStored, DType::kF32, false},
                                             {Format::kF16, DType::kF16, false},
                                             {Format::kBF16, DType::kBF16, false},
                                             {Format::kTF32, DType::kF32, true}};

// Normal values that repeat after 2^20.
DeviceBuffer random_matrix(Device& device, DType dtype, int64_t elements) {
  constexpr int64_t kDrawn = int64_t{1} << 20;
  const CounterRandom random(0, 1);
  std::vector<std::byte> drawn(kDrawn * size_of(dtype));
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    for (int64_t e = 0; e < kDrawn; ++e)
      reinterpret_cast<T*>(drawn.data())[e] = from_double<T>(random.normal(static_cast<uint64_t>(e)));
  });
  DeviceBuffer matrix(device, elements * static_cast<int64_t>(size_of(dtype)));
  fill_with(device, matrix, drawn);
  return matrix;
}

// [flop/s] A product of 8192 x 8192 by cuBLASLt.
double product_rate(Device& device, const ProductFormat& format) {
  constexpr int64_t kSide = 8192;
  Context context(device);
  const DeviceBuffer a = random_matrix(device, format.dtype, kSide * kSide);
  const DeviceBuffer b = random_matrix(device, format.dtype, kSide * kSide);
  const DeviceBuffer d(device, a.bytes());
  const RowProduct product{.dtype = format.dtype,
                           .columns = kSide,
                           .inner = kSide,
                           .a_pitch = kSide,
                           .b_pitch = kSide,
                           .d_pitch = kSide,
                           .usual_rows = kSide,
                           .allows_tf32 = format.allows_tf32};
  const double seconds = median_seconds(
      device, [&] { multiply_rows(product, kSide, a.data(), b.data(), d.data(), context, device.stream()); });
  return 2.0 * kSide * kSide * kSide / seconds;
}

// [s] `count` copies of a few bytes that no cache holds.
double launches_seconds(Device& device, const Work& copy, void* to, const void* from, int count) {
  constexpr int64_t kBytes = 4096;
  constexpr int kRepeats = 11;
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    device.flush_cache();
    seconds.push_back(device.time([&] {
      for (int k = 0; k < count; ++k) copy.run(to, from, kBytes);
    }));
  }
  return median_interval(seconds).median;
}

std::map<Format, double> product_rates(Device& device) {
  std::map<Format, double> rates;
  if (device.info().kind == DeviceKind::kCpu) {
    int64_t flops = 0;
    const double seconds = median_seconds(device, [&] { flops = multiply_in_registers(); });
    rates[Format::kStored] = static_cast<double>(flops) / seconds;
  } else if constexpr (kHasCuda) {
    for (const ProductFormat& format : kProductFormats) {
      try {
        rates[format.factor] = product_rate(device, format);
      } catch (const Error& error) {
        if (error.kind() != Error::Kind::kUnsupported && error.kind() != Error::Kind::kDevice) throw;
      }
    }
  }
  return rates;
}

}  // namespace

Ceilings measure_ceilings(Device& device) {
  // Each buffer holds twice what the caches do, and both a small part of the memory: a virtual
  // machine may take seconds to get a GiB from its host. A GPU needs more for the ends of a copy
  // not to count.
  const int64_t least = int64_t{1} << (device.info().kind == DeviceKind::kCpu ? 28 : 30);
  const int64_t beyond_caches = std::max(2 * device.info().cache_bytes, least);
  const double memory =
      device.host_can_access() ? available_host_memory() : static_cast<double>(device.info().memory_bytes);
  const int64_t bytes =
      std::min(beyond_caches, static_cast<int64_t>(std::min(memory / 8, 0x1p60))) / 4096 * 4096;
  if (bytes <= device.info().cache_bytes) {
    throw device_error("{} MiB of the memory that is left are no more than the caches of {} hold",
                       bytes >> 20, device.info().name());
  }
  const DeviceBuffer from(device, bytes);
  const DeviceBuffer to(device, bytes);
  fill_with_noise(device, from);
  const Candidates candidates = candidates_for(device);
  Ceilings best;
  for (const Work& copy : candidates.copies) {
    const double rate = rate_of(device, copy, to, from);
    if (rate > best.copy_bytes_per_s) {
      best.copy_bytes_per_s = rate;
      best.copy_method = fmt::format("{}, {} MiB", copy.name, bytes >> 20);
    }
  }
  best.read_bytes_per_s = rate_of(device, candidates.read, to, from);
  best.launch_s = launches_seconds(device, candidates.copies.front(), to.data(), from.data(), 1);
  if (device.info().kind == DeviceKind::kCuda) {
    constexpr int kFurther = 8;
    const double all =
        launches_seconds(device, candidates.copies.front(), to.data(), from.data(), 1 + kFurther);
    best.next_launch_s = std::max(all - best.launch_s, 0.0) / kFurther;
  }
  best.product_flops_per_s = product_rates(device);
  return best;
}

Ceilings faster_of(const Ceilings& a, const Ceilings& b) {
  Ceilings faster = a.copy_bytes_per_s > b.copy_bytes_per_s ? a : b;
  faster.read_bytes_per_s = std::max(a.read_bytes_per_s, b.read_bytes_per_s);
  const auto shorter = [](double one, double other) {  // 0 if neither was measured
    return one == 0 || other == 0 ? std::max(one, other) : std::min(one, other);
  };
  faster.launch_s = shorter(a.launch_s, b.launch_s);
  faster.next_launch_s = shorter(a.next_launch_s, b.next_launch_s);
  for (const Ceilings& one : {a, b}) {
    for (const auto& [format, rate] : one.product_flops_per_s) {
      double& known = faster.product_flops_per_s[format];
      known = std::max(known, rate);
    }
  }
  return faster;
}

double products_seconds(const Ceilings& ceilings, int64_t flops, const Recipe& recipe) {
  const auto rate_of = [&](Format factor) {
    const auto rate = ceilings.product_flops_per_s.find(factor);
    return rate == ceilings.product_flops_per_s.end() ? 0 : rate->second;
  };
  // Of the factors with a format of their own, if a sum has such.
  const auto own =
      std::ranges::find_if(recipe.sums, [](const Sum& sum) { return sum.factors != Format::kStored; });
  double rate = 0;  // [flop/s] of the flops that the formula needs
  if (own == recipe.sums.end()) {
    rate = std::max(rate_of(Format::kStored), rate_of(format_for(recipe.storage)));
  } else if (is_split(own->factors)) {
    rate = rate_of(own->factors == Format::kBF16x3 ? Format::kBF16 : Format::kF16) / 3;
  } else {
    rate = rate_of(own->factors);
  }
  return rate == 0 ? 0 : static_cast<double>(flops) / rate;
}

std::string_view name_of(FloorPart::Limit limit) {
  switch (limit) {
    case FloorPart::Limit::kLaunch:
      return "launch";
    case FloorPart::Limit::kBytes:
      return "bytes";
    case FloorPart::Limit::kFlops:
      return "flops";
  }
  throw Error("FloorPart::Limit({}) is not a limit", static_cast<int>(limit));
}

std::vector<FloorPart> floor_parts(const Ceilings& ceilings, const Cost& cost, std::span<const Stage> stages,
                                   const Recipe& recipe, int64_t cache_bytes) {
  const Stage whole{.name = "call", .bytes = cost.bytes, .flops = cost.flops};
  if (stages.empty()) stages = std::span(&whole, 1);
  std::vector<FloorPart> parts;
  const auto further = static_cast<double>(stages.size() - 1);
  if (const double launches = ceilings.launch_s + further * ceilings.next_launch_s; launches > 0) {
    parts.push_back({.name = stages.size() == 1 ? "launch" : fmt::format("{} launches", stages.size()),
                     .ns = launches * 1e9});
  }
  const auto beyond_cache = [&](int64_t bytes) { return std::max<int64_t>(bytes - cache_bytes, 0); };
  for (const Stage& stage : stages) {
    const int64_t bytes = stage.bytes + beyond_cache(stage.reads) + beyond_cache(stage.writes);
    const double copy = static_cast<double>(bytes) / ceilings.copy_bytes_per_s;
    const double products = products_seconds(ceilings, stage.flops, recipe);
    parts.push_back({.name = std::string(stage.name),
                     .limit = products > copy ? FloorPart::Limit::kFlops : FloorPart::Limit::kBytes,
                     .ns = std::max(copy, products) * 1e9,
                     .bytes = bytes,
                     .flops = stage.flops});
  }
  return parts;
}

}  // namespace assay
