// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/alike.h"

#include <bit>
#include <cmath>

#include "oracles/trimul/lanes.h"

namespace assay::trimul::oracle {

void Alike::Positions::add(int bits, double value) {
  constexpr int kFraction = 52;
  if (bits > kFraction || !std::isfinite(value)) return;
  // The bits behind the last one of the format, at the top.
  const uint64_t rest = std::bit_cast<uint64_t>(value) << (64 - kFraction + bits - 1);
  if (rest != 0) ++counts_[rest >> (64 - kBits)];
}

void Alike::Positions::add(const Positions& other) {
  for (size_t at = 0; at < counts_.size(); ++at) counts_[at] += other.counts_[at];
}

ASSAY_VECTORS double Alike::Positions::kappa() const {
  constexpr size_t kParts = 1 << kBits;
  std::array<double, 2 * kParts> twice;  // around the circle and once more
  double count = 0;
  for (size_t at = 0; at < kParts; ++at) {
    twice[at] = twice[at + kParts] = counts_[at];
    count += counts_[at];
  }
  if (count <= 1) return count;
  double sum = 0;
  for (size_t parts = 0; parts <= kParts / 2; ++parts) {
    Lanes lanes{};
    for_lanes(kParts, [&](size_t at, size_t lane) { lanes[lane] += twice[at] * twice[at + parts]; });
    const double pairs = total(lanes);
    const double distance = static_cast<double>(parts) / kParts;
    // 0 on average over all distances.
    const double alike = 1 - 6 * distance * (1 - distance) - 1.0 / (kParts * kParts);
    sum += (parts == 0 || parts == kParts / 2 ? 1 : 2) * alike * pairs;
  }
  return sum / count;
}

}  // namespace assay::trimul::oracle
