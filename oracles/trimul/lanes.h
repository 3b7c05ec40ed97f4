// SPDX-License-Identifier: Apache-2.0
// Long sums take most of the oracle's time: they are added up in lanes, in the same order on all
// machines, of which compilers make vectors.
#pragma once

#include <array>
#include <cstddef>

// Of a function: compiled for several sets of vectors, of which the machine's best one is called.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ASSAY_VECTORS __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ASSAY_VECTORS
#endif

namespace assay::trimul::oracle {

inline constexpr size_t kLanes = 8;
using Lanes = std::array<double, kLanes>;

// Calls add(k, lane) for all k below n; within its caller, whose vectors it uses.
template <class Add>
[[gnu::always_inline]] inline void for_lanes(size_t n, const Add& add) {
  size_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(k + lane, lane);
  }
  for (size_t lane = 0; k < n; ++k, ++lane) add(k, lane);
}

inline double total(const Lanes& lanes) {
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

}  // namespace assay::trimul::oracle
