// SPDX-License-Identifier: Apache-2.0
#include "properties/core/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "properties/core/random.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// CounterRandom::normal() of several counters at once, operation by operation. It pays where the
// hardware multiplies vectors of 64-bit integers. Returns how many values it set.
size_t normals(uint64_t key, uint64_t first, double* values, size_t count) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  const hn::ScalableTag<uint64_t> d;
  const hn::RebindToFloat<decltype(d)> df;
  const size_t n = hn::Lanes(d);
  const auto mix = [&](auto z) {
    z = hn::Mul(hn::Xor(z, hn::ShiftRight<30>(z)), hn::Set(d, 0xBF58476D1CE4E5B9u));
    z = hn::Mul(hn::Xor(z, hn::ShiftRight<27>(z)), hn::Set(d, 0x94D049BB133111EBu));
    return hn::Xor(z, hn::ShiftRight<31>(z));
  };
  const auto low = hn::Set(d, 0xFFFF);
  size_t i = 0;
  for (; i + n <= count; i += n) {
    const auto counters = hn::Mul(hn::Iota(d, first + i), hn::Set(d, 0xD1342543DE82EF95u));
    const auto bits = [&](uint64_t lane) {
      return mix(hn::Xor(hn::Set(d, key), mix(hn::Add(counters, hn::Set(d, lane)))));
    };
    auto sum = hn::Zero(d);
    for (uint64_t lane = 0; lane < 3; ++lane) {
      const auto four = bits(lane);
      sum = hn::Add(sum, hn::And(four, low));
      sum = hn::Add(sum, hn::And(hn::ShiftRight<16>(four), low));
      sum = hn::Add(sum, hn::And(hn::ShiftRight<32>(four), low));
      sum = hn::Add(sum, hn::ShiftRight<48>(four));
    }
    const auto uniform = hn::Mul(hn::ConvertTo(df, hn::ShiftRight<11>(bits(3))), hn::Set(df, 0x1p-53));
    const auto all = hn::Add(hn::ConvertTo(df, sum), hn::Mul(hn::Set(df, 12), uniform));
    hn::StoreU(hn::Sub(hn::Mul(all, hn::Set(df, 0x1p-16)), hn::Set(df, 6)), df, values + i);
  }
  return i;
#else
  static_cast<void>(key), static_cast<void>(first), static_cast<void>(values), static_cast<void>(count);
  return 0;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
namespace {
HWY_EXPORT(normals);
}  // namespace

double CounterRandom::normal(uint64_t counter) const {
  // Twelve 16-bit uniforms give the shape. A 53-bit uniform below their resolution fills the
  // significand.
  uint64_t sum = 0;
  for (uint64_t lane = 0; lane < 3; ++lane) {
    const uint64_t four = bits(counter, lane);
    sum += (four & 0xFFFF) + ((four >> 16) & 0xFFFF) + ((four >> 32) & 0xFFFF) + (four >> 48);
  }
  return (static_cast<double>(sum) + 12 * uniform(counter, 3)) * 0x1p-16 - 6;
}

void CounterRandom::normals(uint64_t first, std::span<double> values) const {
  size_t i = HWY_DYNAMIC_DISPATCH(normals)(key_, first, values.data(), values.size());
  for (; i < values.size(); ++i) values[i] = normal(first + i);
}

}  // namespace assay
#endif
