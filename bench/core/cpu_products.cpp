// SPDX-License-Identifier: Apache-2.0
#include "bench/core/cpu_products.h"

#include <atomic>
#include <thread>

#include "bench/core/keep.h"
#include "kernels/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/core/cpu_products.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kRounds = int64_t{1} << 16;

// Twelve independent sums: two units with a latency of five cycles need ten, and AVX2 has 16
// registers.
int64_t multiply_rounds() {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.5F), term = hn::Set(d, 1);
  // The sums begin with different values: a compiler may keep only one of equal sums.
  const auto from = [&](float value) { return hn::Set(d, value); };
  auto s0 = from(0), s1 = from(1), s2 = from(2), s3 = from(3), s4 = from(4), s5 = from(5);
  auto s6 = from(6), s7 = from(7), s8 = from(8), s9 = from(9), s10 = from(10), s11 = from(11);
  for (int64_t round = 0; round < kRounds; ++round) {
    s0 = hn::MulAdd(s0, factor, term);
    s1 = hn::MulAdd(s1, factor, term);
    s2 = hn::MulAdd(s2, factor, term);
    s3 = hn::MulAdd(s3, factor, term);
    s4 = hn::MulAdd(s4, factor, term);
    s5 = hn::MulAdd(s5, factor, term);
    s6 = hn::MulAdd(s6, factor, term);
    s7 = hn::MulAdd(s7, factor, term);
    s8 = hn::MulAdd(s8, factor, term);
    s9 = hn::MulAdd(s9, factor, term);
    s10 = hn::MulAdd(s10, factor, term);
    s11 = hn::MulAdd(s11, factor, term);
  }
  const auto sum = [](auto a, auto b, auto c) { return hn::Add(hn::Add(a, b), c); };
  const auto all = hn::Add(sum(s0, s1, s2), sum(sum(s3, s4, s5), sum(s6, s7, s8), sum(s9, s10, s11)));
  keep(hn::GetLane(all));
  return kRounds * 12 * 2 * static_cast<int64_t>(hn::Lanes(d));
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace {
HWY_EXPORT(multiply_rounds);
}  // namespace

int64_t multiply_in_registers() {
  constexpr int64_t kPerThread = 32;  // so that threads end alike
  std::atomic<int64_t> flops = 0;
  parallel_for(kPerThread * std::thread::hardware_concurrency(), 1,
               [&](int64_t, int64_t) { flops += HWY_DYNAMIC_DISPATCH(multiply_rounds)(); });
  return flops;
}

}  // namespace assay
#endif  // HWY_ONCE
