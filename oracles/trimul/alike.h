// SPDX-License-Identifier: Apache-2.0
// How many roundings of values to a format count as one, since the values lie alike between its
// numbers. The derivation stands in oracles/trimul/trimul.h, "Roundings that are alike".
#pragma once

#include <array>
#include <cstdint>

#include "oracles/trimul/stages.h"

namespace assay::trimul::oracle {

class Alike {
 public:
  // Values are rounded to so many significant bits; those of split factors also to twice as many.
  explicit Alike(int bits, bool is_split = false) : bits_(bits), is_split_(is_split) {}
  explicit Alike(const Units& units) : Alike(units.factor_bits, units.is_split) {}

  // Nothing is rounded of numbers of the format.
  void add(double value) {
    coarse_.add(bits_, value);
    if (is_split_) fine_.add(2 * bits_, value);
  }
  void add(const Alike& other) {
    coarse_.add(other.coarse_);
    fine_.add(other.fine_);
  }

  // kappa: 1 on average where values lie at random, at most their number.
  double kappa() const { return is_split_ ? coarse_.kappa() / 3 + fine_.kappa() * 2 / 3 : coarse_.kappa(); }

 private:
  // Positions between two numbers of the format, counted in parts of the distance.
  class Positions {
   public:
    void add(int bits, double value);
    void add(const Positions& other);
    double kappa() const;

   private:
    static constexpr int kBits = 5;
    std::array<uint32_t, 1 << kBits> counts_{};
  };

  int bits_;
  bool is_split_;
  Positions coarse_, fine_;
};

// By what the square of a limit grows: a share of kappa, and of the other side's like it, in place
// of `counted` equal values; nothing as long as kappa is no more than what limits exceed standard
// deviations by.
inline double growth(double kappa, double counted = 1) {
  return std::max(1.0, 2 * kappa / (3 * counted));
}

}  // namespace assay::trimul::oracle
