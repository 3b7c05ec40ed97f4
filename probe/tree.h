// SPDX-License-Identifier: Apache-2.0
// The tree in which a sum adds up its terms, and how it is recovered from outside.
//
// Give term i the value M, term j the value -M, and each other term 1, where M swamps all of them:
// fl(M + m) = M for any m of them. Then the sum loses what is added to M or -M before these two
// meet. So it counts the terms outside the smallest subtree that holds both i and j. Let L(i,j) be
// the number of leaves of that subtree. The tree follows from these numbers (FPRev, Xie et al.,
// USENIX ATC 2025). A node with more than two parts adds them at once, as a fused group does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace assay {

// A leaf is a term of the sum. Any other node adds up its parts, which are in the order of their
// first leaves.
struct SumTree {
  int64_t leaf = -1;
  std::vector<SumTree> parts = {};

  bool is_leaf() const { return parts.empty(); }
  bool operator==(const SumTree&) const = default;
};

SumTree leaf(int64_t term);
SumTree node(std::vector<SumTree> parts);  // sorts the parts

// Common trees over `count` terms: first, first + step, ...
struct Leaves {
  int64_t count;
  int64_t first = 0;
  int64_t step = 1;
};
SumTree sequential(const Leaves& terms);
SumTree pairwise(const Leaves& terms);  // halves; the first one is the larger
SumTree sequential_of(std::vector<SumTree> parts);
SumTree pairwise_of(std::vector<SumTree> parts);
// Groups of `size` terms, each added at once to the sum so far.
SumTree fused_chain(const Leaves& terms, int64_t size);

int64_t leaf_count(const SumTree& tree);
std::vector<int64_t> leaves_of(const SumTree& tree);  // from left to right
int64_t depth_of(const SumTree& tree);                // additions that a term goes through at most
int64_t widest_node(const SumTree& tree);             // the most parts of a node; 0 for a leaf

using Pair = std::pair<int64_t, int64_t>;
// L(i,j) for each pair.
using CommonLeaves = std::function<std::vector<int64_t>(const std::vector<Pair>& pairs)>;

// L(i,j) of a known tree.
std::vector<int64_t> common_leaves(const SumTree& tree, const std::vector<Pair>& pairs);

// The tree over `count` >= 1 terms. Asks for n - 1 pairs at least and n(n-1)/2 at most, in as few
// calls as the tree has levels of groups. Then it asks for other pairs, at random, and gives
// nothing if the tree contradicts one of them: no tree explains these numbers. More terms than
// kMostAtOnce are no addition: there, what follows the sum has lost the units.
inline constexpr int64_t kMostAtOnce = 33;  // FP8 on tensor cores: 32 products, and the sum so far
struct Recovered {
  std::optional<SumTree> tree;
  int64_t pairs = 0;      // asked for
  std::string why_not{};  // names the pair
};
Recovered recover_tree(int64_t count, const CommonLeaves& ask, uint64_t seed = 0);

}  // namespace assay
