// SPDX-License-Identifier: Apache-2.0
// What a sum adds with, found by terms that are placed by its tree.
//
// 2^t, 1 and -2^t are added in this order. What remains is 1 if the sum holds t + 1 bits at least.
// Let 2^t be the largest for which it does, so that 1 is the last bit. Then 2^t + 3/4 tells
// rounding to nearest from cutting, its negative tells up from down, and 2^t + 1 + 1/2 shows ties.
// The 1 is added where the first terms meet, half-way to the root, and in the last addition but the
// one that takes 2^t away.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "probe/questions.h"
#include "probe/simulate.h"

namespace assay {

// How factors enter a product.
struct FactorUse {
  int bits = 0;                        // that are kept of each
  std::optional<RoundingMode> mode{};  // of the rest; none if the storage dtype has no more bits
  // Whether a factor in two parts misses the product of its low parts: absent unless factors keep
  // more bits than a part has.
  bool lacks_low_product = false;
  bool keeps_subnormals = true;
};

struct Accumulator {
  std::optional<int> bits{};               // of the sum between two additions: the fewest found
  std::optional<RoundingMode> mode{};      // none if the answers fit no mode
  std::optional<int> fraction{};           // [bits] of a fused group below its largest part
  std::optional<bool> keeps_subnormals{};  // of results
  std::optional<FactorUse> factors{};
  std::vector<bool> is_fused{};        // Adder::is_fused; empty if it cannot be asked for
  bool knows_fused = true;             // or it was asked for, and the answers fit nothing
  std::vector<std::string> unclear{};  // what could not be found, and why

  Adder adder() const;
};

Accumulator find_accumulator(const Reach& reach, const SumTree& tree);

// One term of each level of the tree, the deepest first: each is added to the sum of all before it.
std::vector<int64_t> nested_terms(const SumTree& tree);

}  // namespace assay
