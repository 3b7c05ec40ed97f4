// SPDX-License-Identifier: Apache-2.0
// Eight numbers side by side, of which compilers make vectors. Lanes are added up in the same order
// on all machines.
#pragma once

#include <cstddef>
#include <cstring>

// Marks a function. It is compiled for several instruction sets, and the best one that the machine
// has is called.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ASSAY_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ASSAY_VECTORS
#endif

namespace assay {

inline constexpr size_t kLanes = 8;
using Lanes [[gnu::vector_size(kLanes * sizeof(double))]] = double;

// As many of these numbers as there are lanes; what is missing is 0.
[[gnu::always_inline]] inline Lanes lanes_of(const double* from, size_t count) {
  Lanes lanes{};
  if (count >= kLanes) {
    std::memcpy(&lanes, from, sizeof lanes);
  } else {
    for (size_t i = 0; i < count; ++i) lanes[i] = from[i];
  }
  return lanes;
}

[[gnu::always_inline]] inline Lanes magnitudes(Lanes x) {
  return x < 0 ? -x : x;
}

[[gnu::always_inline]] inline double total(Lanes x) {
  const auto fours = __builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7);
  const auto twos = __builtin_shufflevector(fours, fours, 0, 1) + __builtin_shufflevector(fours, fours, 2, 3);
  return twos[0] + twos[1];
}

}  // namespace assay
