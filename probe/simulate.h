// SPDX-License-Identifier: Apache-2.0
// Performs a sum in a given tree, bit for bit, with the adders of CPUs and of tensor cores.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "probe/tree.h"

namespace assay {

enum class RoundingMode : uint8_t { kNearestEven, kTowardZero, kNearestAway, kUp, kDown };
std::string_view name_of(RoundingMode mode);  // "to nearest, ties to even"

// An addition of two is exact, then rounded to `bits`, with the exponents of f32 unless bits = 53.
//
// If `fraction` is given, a node with terms among its parts is a fused group. A product is not
// normalised: its exponent is the sum of those of its factors. Each part is cut towards zero below
// 2^(e - fraction), where e is the largest exponent among them. The rest is added exactly, then cut
// towards zero to `bits` (Fasi et al., PeerJ CS 2021; MMA-Sim, arXiv 2511.10909).
struct Adder {
  int bits = 24;
  RoundingMode mode = RoundingMode::kNearestEven;
  std::optional<int> fraction = {};  // [bits] at most 40
  bool keeps_subnormals = true;
  // Of each term: whether its product enters the addition unrounded, as in a fused multiply-add.
  // Empty: none does.
  std::vector<bool> is_fused = {};
};

// Rounds to `bits` significant bits.
double rounded(double value, const Adder& adder);

// The sum of a[k] * b[k]. A product of two factors has to be exact in f64.
double simulate(const SumTree& tree, std::span<const double> a, std::span<const double> b,
                const Adder& adder);

}  // namespace assay
