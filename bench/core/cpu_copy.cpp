// SPDX-License-Identifier: Apache-2.0
// An ordinary store first reads the line that it overwrites, which adds a third to the traffic of a
// copy. A streaming store does not.
#include "bench/core/cpu_copy.h"

#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>

#include "kernels/core/error.h"
#include "kernels/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/core/cpu_copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kStep = 256;   // [bytes] copied from a page before going on to the next page
constexpr size_t kPage = 4096;  // [bytes]
constexpr size_t kPages = 8;    // copied side by side: the hardware prefetcher follows each

HWY_INLINE void copy_step(uint8_t* to, const uint8_t* from) {
  const hn::CappedTag<uint8_t, 64> d;
  const size_t n = hn::Lanes(d);
  for (size_t i = 0; i < kStep; i += 4 * n) {
    const auto v0 = hn::Load(d, from + i);
    const auto v1 = hn::Load(d, from + i + n);
    const auto v2 = hn::Load(d, from + i + 2 * n);
    const auto v3 = hn::Load(d, from + i + 3 * n);
    hn::Stream(v0, d, to + i);
    hn::Stream(v1, d, to + i + n);
    hn::Stream(v2, d, to + i + 2 * n);
    hn::Stream(v3, d, to + i + 3 * n);
  }
}

void copy_range(uint8_t* to, const uint8_t* from, size_t bytes) {
  size_t i = 0;
  for (; i + kPages * kPage <= bytes; i += kPages * kPage) {
    for (size_t in_page = i; in_page < i + kPage; in_page += kStep) {
      for (size_t at = in_page; at < in_page + kPages * kPage; at += kPage) copy_step(to + at, from + at);
    }
  }
  for (; i + kStep <= bytes; i += kStep) copy_step(to + i, from + i);
  std::memcpy(to + i, from + i, bytes - i);
  hwy::FlushStream();
}

uint64_t read_range(const uint8_t* from, size_t bytes) {
  const hn::CappedTag<uint64_t, 8> d;
  const size_t n = hn::Lanes(d) * sizeof(uint64_t);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  for (size_t i = 0; i + 2 * n <= bytes; i += 2 * n) {
    sum0 = hn::Xor(sum0, hn::LoadU(d, reinterpret_cast<const uint64_t*>(from + i)));
    sum1 = hn::Xor(sum1, hn::LoadU(d, reinterpret_cast<const uint64_t*>(from + i + n)));
  }
  // SumOfLanes() of AVX-512 would add up signed numbers, which overflow.
  alignas(64) std::array<uint64_t, 8> lanes{};
  hn::Store(hn::Xor(sum0, sum1), d, lanes.data());
  return std::reduce(lanes.begin(), lanes.end(), uint64_t{0}, std::bit_xor<>());
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace {

HWY_EXPORT(copy_range);
HWY_EXPORT(read_range);

constexpr int64_t kAlignment = 64;  // [bytes] a cache line, and the longest vector used
// [bytes] a thread's share at a time, many times kPages * kPage.
constexpr int64_t kGrain = int64_t{8} << 20;

}  // namespace

void streaming_copy(void* to, const void* from, int64_t bytes) {
  for (const void* pointer : {from, static_cast<const void*>(to)}) {
    if (reinterpret_cast<uintptr_t>(pointer) % kAlignment != 0) {
      throw Error("streaming_copy: the address {} is not a multiple of {} bytes", pointer, kAlignment);
    }
  }
  parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(copy_range)
    (static_cast<uint8_t*>(to) + begin, static_cast<const uint8_t*>(from) + begin,
     static_cast<size_t>(end - begin));
  });
}

uint64_t streaming_read(const void* from, int64_t bytes) {
  std::atomic<uint64_t> all = 0;
  parallel_for(bytes, kGrain, [&](int64_t begin, int64_t end) {
    all ^= HWY_DYNAMIC_DISPATCH(read_range)(static_cast<const uint8_t*>(from) + begin,
                                            static_cast<size_t>(end - begin));
  });
  return all;
}

}  // namespace assay
#endif  // HWY_ONCE
