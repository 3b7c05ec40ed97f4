// SPDX-License-Identifier: Apache-2.0
// What CPU paths do with Highway vectors of at most 16 f32: conversion of storage types to f32 and
// back, plain and streaming stores, tails, prefetches.
//
// A source is compiled once per instruction set, and this header with it. So a guard that
// foreach_target.h toggles takes the place of `#pragma once`. The source names its own path, then
// includes this header instead of Highway's:
//
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/<op>/cpu.cpp"
//   #include "kernels/core/simd-inl.h"
//
// Equal elements get equal bits only if every layout and every tail goes through the same vector
// operations. So rows that are not dense are copied to dense ones first, and the last vector of a
// row is filled up.

// The other x86 targets would cost compile time and gain hardly any speed, since this work waits
// for memory. Vectors whose length is known at run time only cannot be kept in arrays. Sanitizers
// need one set of vectors only, since the sources are the same: that of the compiler's options.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HWY_COMPILE_ONLY_STATIC
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#endif
#include <hwy/cache_control.h>
#ifdef HWY_TARGET_INCLUDE
#include <hwy/foreach_target.h>  // must come before highway.h
#endif
#include <hwy/highway.h>

#if defined(ASSAY_KERNELS_CORE_SIMD_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ASSAY_KERNELS_CORE_SIMD_INL_H
#undef ASSAY_KERNELS_CORE_SIMD_INL_H
#else
#define ASSAY_KERNELS_CORE_SIMD_INL_H
#endif

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace assay::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::CappedTag<float, 16>;
using U32 = hn::RebindToUnsigned<F32>;
using I32 = hn::RebindToSigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using V32 = hn::Vec<F32>;
using VU32 = hn::Vec<U32>;
using VU16 = hn::Vec<U16>;
constexpr int kLanes = hn::MaxLanes(F32());

// Where the hardware does not convert f16, Highway's emulation loses subnormals, infinities and
// NaNs.
constexpr bool kConvertsF16 = (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64;

// A vector of kLanes elements of a storage type, and its conversion to f32 and back.
template <class T>
struct Storage;

template <>
struct Storage<float> {
  using Tag = F32;
  static V32 widen(V32 v) { return v; }
  static V32 round(V32 v) { return v; }
};

template <>
struct Storage<bf16> {
  using Tag = U16;
  static V32 widen(VU16 v) { return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), v))); }
  static VU16 round(V32 v) {
    return hn::DemoteTo(U16(), hn::BitCast(I32(), hn::ShiftRight<16>(round_high(v))));
  }

  // Rounds to nearest even in the upper half: adds half a unit, or a bit less if the kept part is
  // even. The lower half of a NaN must be empty, which holds for every NaN that comes from bf16
  // operands: nothing is carried then, and it stays a NaN of its sign.
  static VU32 round_high(V32 v) {
    const U32 u32;
    const VU32 bits = hn::BitCast(u32, v);
    const VU32 odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(u32, 1));
    return hn::Add(hn::Add(bits, hn::Set(u32, 0x7FFF)), odd);
  }
};

template <>
struct Storage<f16> {
  using Tag = U16;
  using Half = hn::Rebind<hwy::float16_t, F32>;

  static V32 widen(VU16 v) {
    if constexpr (kConvertsF16) {
      return hn::PromoteTo(F32(), hn::BitCast(Half(), v));
    } else {
      HWY_ALIGN uint16_t narrow[kLanes];
      HWY_ALIGN float wide[kLanes];
      hn::Store(v, U16(), narrow);
      for (int i = 0; i < kLanes; ++i) wide[i] = static_cast<float>(to_double(f16{narrow[i]}));
      return hn::Load(F32(), wide);
    }
  }
  static VU16 round(V32 v) {
    if constexpr (kConvertsF16) {
      return hn::BitCast(U16(), hn::DemoteTo(Half(), v));
    } else {
      HWY_ALIGN uint16_t narrow[kLanes];
      HWY_ALIGN float wide[kLanes];
      hn::Store(v, F32(), wide);
      for (int i = 0; i < kLanes; ++i) narrow[i] = to_f16(wide[i]).bits;
      return hn::Load(U16(), narrow);
    }
  }
};

// Two elements of 16 bits side by side in a 32-bit lane, the first in the lower half, as f32 and
// back.
template <class T>
struct Pairs;

template <>
struct Pairs<bf16> {
  static V32 first(VU32 pairs) { return hn::BitCast(F32(), hn::ShiftLeft<16>(pairs)); }
  static V32 second(VU32 pairs) { return hn::BitCast(F32(), hn::And(pairs, hn::Set(U32(), 0xFFFF0000))); }
  static VU32 round(V32 first, V32 second) {
    return hn::Or(hn::ShiftRight<16>(Storage<bf16>::round_high(first)),
                  hn::And(Storage<bf16>::round_high(second), hn::Set(U32(), 0xFFFF0000)));
  }
};

template <>
struct Pairs<f16> {
  using S = Storage<f16>;
  static V32 first(VU32 pairs) { return S::widen(hn::TruncateTo(U16(), pairs)); }
  static V32 second(VU32 pairs) { return S::widen(hn::TruncateTo(U16(), hn::ShiftRight<16>(pairs))); }
  static VU32 round(V32 first, V32 second) {
    const U32 u32;
    return hn::Or(hn::PromoteTo(u32, S::round(first)),
                  hn::ShiftLeft<16>(hn::PromoteTo(u32, S::round(second))));
  }
};

template <class T>
using Lane = hn::TFromD<typename Storage<T>::Tag>;

template <class T>
HWY_INLINE V32 load(const T* from) {
  return Storage<T>::widen(hn::LoadU(typename Storage<T>::Tag(), reinterpret_cast<const Lane<T>*>(from)));
}

// A streaming store bypasses the caches, which saves reading the line that it overwrites. For one,
// `to` must be a multiple of the vector's size, and hwy::FlushStream() must follow the last one.
template <class Tag>
HWY_INLINE void write(hn::Vec<Tag> v, Tag tag, hn::TFromD<Tag>* to, bool stream) {
  // Highway would write 16 bytes of a shorter vector, too.
  constexpr bool kCanStream = hn::MaxLanes(Tag()) * sizeof(hn::TFromD<Tag>) >= HWY_STREAM_MULTIPLE;
  if (kCanStream && stream) {
    hn::Stream(v, tag, to);
  } else {
    hn::StoreU(v, tag, to);
  }
}

template <class T>
HWY_INLINE void store(V32 v, T* to, bool stream) {
  write(Storage<T>::round(v), typename Storage<T>::Tag(), reinterpret_cast<Lane<T>*>(to), stream);
}

// Two vectors of elements that lie side by side. bf16 elements go in pairs, which takes fewer
// instructions than keeping their order: the first vector holds every other element, the second one
// those between. The order does not matter if each element gets its place back.
constexpr int kTwo = 2 * kLanes;
template <class T>
constexpr bool kAlternates = std::is_same_v<T, bf16>;

// [bytes] Streaming stores of vectors or of two of them begin at multiples of this.
template <class T>
constexpr size_t kStreamAlignment = (kAlternates<T> ? kTwo : kLanes) * sizeof(T);

template <class T>
HWY_INLINE void load_two(const T* from, V32& first, V32& second) {
  if constexpr (kAlternates<T>) {
    const VU32 pairs = hn::LoadU(U32(), reinterpret_cast<const uint32_t*>(from));
    first = Pairs<T>::first(pairs);
    second = Pairs<T>::second(pairs);
  } else {
    first = load(from);
    second = load(from + kLanes);
  }
}
template <class T>
HWY_INLINE void store_two(V32 first, V32 second, T* to, bool stream) {
  if constexpr (kAlternates<T>) {
    write(Pairs<T>::round(first, second), U32(), reinterpret_cast<uint32_t*>(to), stream);
  } else {
    store(first, to, stream);
    store(second, to + kLanes, stream);
  }
}

// Puts such vectors of T into the order of their elements, as f32.
template <class T>
HWY_INLINE void put_in_order(V32 first, V32 second, float* to) {
  if constexpr (kAlternates<T>) {
    hn::StoreInterleaved2(first, second, F32(), to);
  } else {
    hn::StoreU(first, F32(), to);
    hn::StoreU(second, F32(), to + kLanes);
  }
}

// 2^n for n from -126 to 127.
HWY_INLINE V32 power_of_two(hn::Vec<I32> n) {
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(I32(), 127))));
}

// 2^f for |f| <= 0.5, by the Taylor terms ln(2)^i / i! * f^i. The first term left out is below
// 2^-27.
HWY_INLINE V32 power_of_fraction(V32 f) {
  const F32 f32;
  V32 power = hn::Set(f32, 1.52527338e-5f);
  power = hn::MulAdd(power, f, hn::Set(f32, 1.54035304e-4f));
  power = hn::MulAdd(power, f, hn::Set(f32, 1.33335581e-3f));
  power = hn::MulAdd(power, f, hn::Set(f32, 9.61812911e-3f));
  power = hn::MulAdd(power, f, hn::Set(f32, 5.55041087e-2f));
  power = hn::MulAdd(power, f, hn::Set(f32, 2.40226507e-1f));
  power = hn::MulAdd(power, f, hn::Set(f32, 6.93147181e-1f));
  return hn::MulAdd(power, f, hn::Set(f32, 1));
}

// Copies the last elements of a row and fills the rest with zeros.
template <class T, int64_t kSize>
const T* fill_up(const T* from, int64_t count, T (&to)[kSize]) {
  std::fill_n(std::copy_n(from, count, to), kSize - count, T{});
  return to;
}

// Prefetches kCount elements into the second cache level. They will be read soon, but lie pages
// away from what is read now, where the hardware does not look ahead.
template <int64_t kCount, class T>
HWY_INLINE void prefetch(const T* from) {
  constexpr int64_t kLine = 64;  // [bytes]
  for (int64_t at = 0; at < kCount * int64_t{sizeof(T)}; at += kLine) {
    __builtin_prefetch(reinterpret_cast<const char*>(from) + at, 0, 2);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay::simd
HWY_AFTER_NAMESPACE();

#endif  // ASSAY_KERNELS_CORE_SIMD_INL_H
