// SPDX-License-Identifier: Apache-2.0
// Random numbers as a function of (seed, stream, counter). They are the same on every machine and
// for any number of threads.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

class CounterRandom {
 public:
  CounterRandom(uint64_t seed, uint64_t stream) : key_(mix(seed + 0x9E3779B97F4A7C15u * (stream + 1))) {}

  // 64 random bits; `lane` separates several numbers for one counter.
  uint64_t bits(uint64_t counter, uint64_t lane = 0) const {
    return mix(key_ ^ mix(counter * 0xD1342543DE82EF95u + lane));
  }

  // [0, 1), a multiple of 2^-53.
  double uniform(uint64_t counter, uint64_t lane = 0) const {
    return static_cast<double>(bits(counter, lane) >> 11) * 0x1p-53;
  }

  // Mean 0, variance 1, |x| < 6: a sum of twelve uniforms. It calls no library function, so all
  // platforms give the same bits.
  double normal(uint64_t counter) const;
  // Those of counters from `first` on.
  void normals(uint64_t first, std::span<double> values) const;

 private:
  // The finalizer of MurmurHash3 with the constants of SplitMix64 (Steele, Lea, Flood 2014).
  static constexpr uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  uint64_t key_;
};

}  // namespace assay
