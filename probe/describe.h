// SPDX-License-Identifier: Apache-2.0
// A summation tree in words, as a line and as a picture.
#pragma once

#include <string>

#include "probe/tree.h"

namespace assay {

// "sequential", "pairwise", "8 strided lanes, each sequential, then pairwise", or else its depth.
std::string shape_of_tree(const SumTree& tree);

// All of the tree on one line, with runs folded:
//   seq(0..63)              ((0 + 1) + 2) + ...
//   {0..7}                  a fused node of eight terms
//   seq({0..7} {8..15} 16)  each added to the sum so far; a fused group in one step with it
//   (A B)                   any other node
// What is longer than `most` characters ends in "...".
std::string line_of_tree(const SumTree& tree, size_t most = 400);

// SVG, terms from left to right, the root on top; fused nodes are bars.
std::string picture_of_tree(const SumTree& tree, const std::string& title);

}  // namespace assay
