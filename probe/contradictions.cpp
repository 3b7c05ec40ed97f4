// SPDX-License-Identifier: Apache-2.0
#include "probe/contradictions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "kernels/core/error.h"

namespace assay {
namespace {

constexpr int kF32 = 24;  // [bits]

// [bits] that a factor keeps at least, of those that its dtype has.
int bits_of(Format format) {
  switch (format) {
    case Format::kStored:
      return kF32;
    case Format::kF16:
    case Format::kTF32:
      return 11;
    case Format::kBF16:
      return 8;
    case Format::kBF16x3:
      return 16;
    case Format::kF16x3:
      return 22;
  }
  throw Error("Format({}) is not a format", static_cast<int>(format));
}

// Whether each node adds up neighbours (Sum::Order::kContiguous): all terms from one to another,
// but for those of a single step, which are added in any order.
bool adds_neighbours(const SumTree& tree, int64_t terms) {
  constexpr auto kStep = static_cast<int64_t>(Sum::kStep);
  std::map<int64_t, int64_t> of_step;
  std::vector<int64_t> leaves = leaves_of(tree);
  std::ranges::sort(leaves);
  for (int64_t term : leaves) ++of_step[term / kStep];
  const int64_t steps = of_step.rbegin()->first - of_step.begin()->first + 1;
  const auto is_partial = [&](const auto& step) {
    return step.second < std::min(kStep, terms - step.first * kStep);
  };
  const bool is_run = leaves.back() - leaves.front() + 1 == static_cast<int64_t>(leaves.size());
  const bool is_near =
      steps == static_cast<int64_t>(of_step.size()) && std::ranges::count_if(of_step, is_partial) <= 1;
  if (!is_run && !is_near) return false;
  return std::ranges::all_of(tree.parts, [&](const SumTree& part) { return adds_neighbours(part, terms); });
}

}  // namespace

std::vector<std::string> contradictions(const Sum& declared, const SumTree& tree, const Accumulator& found,
                                        int stored_bits) {
  std::vector<std::string> all;
  if (found.bits && *found.bits < kF32) {
    all.push_back(
        fmt::format("the sum is kept in {} bits; the recipe declares f32, which has {}", *found.bits, kF32));
  }
  const bool cuts =
      found.mode && *found.mode != RoundingMode::kNearestEven && *found.mode != RoundingMode::kNearestAway;
  if (cuts && !declared.truncates) {
    all.push_back(
        fmt::format("additions are rounded {}; the recipe declares to nearest", name_of(*found.mode)));
  }
  // A group that is cut below its largest part has an error of one bit for each part.
  if (found.fraction && !declared.truncates && *found.fraction < kF32 - 1) {
    all.push_back(
        fmt::format("fused groups are cut after {} bits; the recipe declares none", *found.fraction));
  }
  const int wanted = std::min(bits_of(declared.factors), stored_bits);
  if (found.factors && found.factors->bits < wanted) {
    all.push_back(fmt::format("factors keep {} bits; the recipe declares {}: {} bits", found.factors->bits,
                              declared.factors == Format::kStored ? "no rounding" : name_of(declared.factors),
                              wanted));
  }
  if (declared.order == Sum::Order::kContiguous && !adds_neighbours(tree, leaf_count(tree))) {
    all.push_back("terms that are no neighbours are added; the recipe declares neighbours only");
  }
  return all;
}

std::vector<std::string> contradictions_of_groups(const Sum& declared, const Reach& reach) {
  if (declared.group == 0) return {};
  constexpr int kSwampsF32 = 40;
  Reach narrow = reach;
  narrow.huge = reach.unit + kSwampsF32;
  std::vector<Pair> pairs;
  for (int64_t k = 1; k < reach.terms; ++k) pairs.emplace_back(0, k);
  const std::vector<int64_t> lost = common_leaves_by_masks(narrow)(pairs);
  const int64_t most = std::ranges::max(lost), allowed = 2 * static_cast<int64_t>(declared.group);
  if (most <= allowed) return {};
  return {fmt::format("{} terms are added in f32 around two of them; the recipe declares groups of {}", most,
                      declared.group)};
}

}  // namespace assay
