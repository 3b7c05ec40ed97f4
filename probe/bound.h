// SPDX-License-Identifier: Apache-2.0
// How far a sum can be from the exact one, by its tree and its adder.
//
// Let S be the sum of the sizes of the terms below a node. An error of e S or less of each part
// makes one of ((1 + e)(1 + d) - 1) S or less of the node, where d is what the node itself adds:
//   - an addition of two rounds its result, so d = u: 2^-bits to nearest, else 2^(1 - bits)
//   - a fused group of w parts cuts each one by less than 2^-fraction of the largest, and the
//     result to `bits`, so 1 + d = (1 + w 2^-fraction)(1 + 2^(1 - bits))
// A product that is rounded before it is added has e = u, and any other has e = 0. So |error| <=
// ((1 + u)^depth - 1) S where fused multiply-adds add two at a time. Overflow and underflow are
// left out.
#pragma once

#include "probe/simulate.h"
#include "probe/tree.h"

namespace assay {

// The bound over the sum of the sizes of all terms. A node of more than two parts has to be a fused
// group, or to have no term among its parts.
double bound_of_tree(const SumTree& tree, const Adder& adder);

}  // namespace assay
