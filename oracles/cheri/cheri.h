// SPDX-License-Identifier: Apache-2.0
// Oracles of the Cheri ops, in double: the exact values, and what rounding may do to a path that
// keeps the contract (kernels/cheri/cheri.h). u = 2^-24 is the unit roundoff of f32, v = 2^-53 that
// of f64, gamma_n = n*u / (1 - n*u), M = L*C. Values that are rounded in one place are written with
// a hat.
//
// Sums of errors. A sum of M values with errors |e_i| <= b_i is wrong by at most sum b_i. Where the
// errors come from different roundings of different data they are taken as independent with mean
// zero [Higham, Mary 2019]; then by Hoeffding's inequality it is wrong by at most
//
//   7 * sqrt(r * sum b_i^2)        but for a probability of 2 exp(-7^2 / 2) = 5e-11
//
// Equal values have equal errors, and those of c and -c are opposite, so that d e, dy e or x e may
// be equal again: r is the number of times that the most frequent |c| occurs, or |c - mean| of a c
// without error, for r equal errors count as one that is r times as large. [b] below stands for the
// smaller of both limits. Regimes that repeat values (constant, spike, 16-bit data) have a large r,
// and the first limit holds. Additions in f64 have [v] * sum |a_i| in the same way.
//
// conv     at most three products in f32, in any order, fused or not: the error e_i of c_i = conv is at most
//          delta_i = gamma_n * sum |x*w| + underflow, 0 if all partial sums are numbers of f32 (oracles/core/bound.h)
//
// mean     mean^ is that of the rounded c^_i = c_i + e_i, summed in f64 as deviations, which are at most R = the range of
//          c with its errors, and kept in two f32 or f64:   |mean^ - mean(c^)| <= h = [v] * (|mean| + 2R) + 4 u^2 |mean|,
//          |mean^ - mean| <= h + [delta] / M
// rstd     V^ = sum (c^_i - mean(c^))^2 / M <= V + 2/M sum d_i e_i + 1/M sum e_i^2,   d_i = c_i - mean, so that
//          |V^ - V| <= [2 |d| delta] / M + sum delta^2 / M + 4 [v] R (R + u |mean|).   1/sqrt is monotone: its relative
//          error rho follows from the ends of this interval, and 3u for rounding V, eps, the root and the quotient.
//          Squares that underflow are nothing beside eps = 1e-3; squares that overflow f32 are the path's to avoid.
// y        = (c - mean) * rstd, each operation rounded, the difference twice if the mean is in two f32:
//          own:      rstd * delta_i + 3u * |y|        of this element alone; also what underflows, if the mean is kept or
//                    subtracted without a scale
//          shared:   rstd * |mean^ - mean| + |y| * rho, one error for the whole example
//          One value alone (M = 1) is c - c = 0 whatever rounding did to c.
//
// The gradient.  m1 = mean(dy), m2 = mean(dy * y), D = dy - m1 - y * m2, dconv = rstd * D
// m1       f64 and two f32:   Delta1 = ((M+4) v + 4 u^2) * mean |dy|
// m2       the y^ have the mean 0 but for h, since the statistics are theirs: a shift of all y meets sum (dy - m1) = 0, so
//          Delta2 = ([|dy - m1| * rstd * delta + |dy| * u|y|] + sum |dy| * 2u|y|) / M
//                   + rstd * h * |m1| + (rho + u) * |m2| + f64
//          The roundings of c - mean are not independent: the c lie on a grid, and all differences of one binade that
//          have a finer one round the same rest of the mean. With dy of one sign they add up.
// dconv    own:      rstd * (|m2| * own(y) + u * (2|dy - m1| + 2|y m2| + |D|)) + 2u |dconv|
//          shared:   rstd * (Delta1 + |y| * Delta2 + |m2| * shared(y)) + rho * |dconv|
// dx       three products: sum |w| * error(dconv) + gamma_3 * sum |w * dconv|
// dw       with t = dconv * x, added by 32 in f32 and then in f64:
//          [|x| * own(dconv) + gamma_32 * |t|], the latter with sum b^2 = u^2 * (1 + 2 + ... + 32) * sum t^2, for j products
//          add up to at most the root of j * sum t^2, and a product is in one sum of each size at most; and for each
//          example what its shared errors make of sum x, sum x*y, sum t: [Delta1 rstd |sum x| + Delta2 rstd |sum x*y| +
//          ...], where r is the number of examples with the same statistics, or with those of -x and -dy
//          Here the roundings of dy - m1 and c - mean count as independent though those of one example may agree: with x
//          and dy of one sign and 2e5 positions, a loop reached less than a third of the bound.
//
// The block.  z = w1 y, g = gelu(z), out = x + scale * w2 g. With q = 2^-23 (tensor cores truncate)
// for sums, and f for the relative error of a factor:
//          factor kStored   f(y) = 0,        f(w1) = 0,   f(w2) = 2u (scale folded into w2 in f32)
//          kF16, kBF16      f(y), f(g): half a unit in the last place; f(w) = u of the format, + half its smallest number;
//                           f(w1) = 0 if it is stored so
//          kBF16x3          a = hi + lo + rest with |lo| <= 2^-8 |a|, |rest| <= 2^-16 |a|. lo*lo and both rests are left
//                           out: 3 * 2^-16 of |a*b|
// z        [|w1| * (error(y) + f(y) + f(w1) |y|)] + C q sum |w1 y|, the shared errors of y by Cauchy-Schwarz in the second
//          limit; then half a unit in the last place of the dtype between the steps, if that is not f32
//          Equal weights count in r where f(w1) > 0: without errors of their own they make none equal.
// g        |gelu'| * error(z), where gelu' is the greatest slope in z +- error(z); 8u |g| + 4u |z| + 2^-149 for any
//          evaluation in f32 that cancels at most as much as 1 + tanh; stored and made a factor like y
// out      [|w2| * (f(g) + f(w2) |g|)] + hidden q sum |w2 g| + the errors of g, stored between the steps, times scale
//          (3u), added to x (u). If w2 g = 0 without error, out = x and the bound is 0.
//
// Kinds of hidden units.  Units whose rows of w1 are equal are of one kind k. In broadcast and
// constant weights all are of one, and sum w2 of a row may nearly cancel. With
//
//          S = sum w2,  A = sum |w2|,  Q = sum w2^2,  Q' = sum r w2^2 over the units of a kind,
//
// where r is how often |w2| occurs in its row of w2, out adds the errors of its units up like this.
//   common  what z has from y and from f(w1). All units of a kind multiply one y^ by one w1^, so this error of z is the same
//           number in each, whatever the order of a sum; so is what gelu makes of it: |S| times, where A would be wrong by
//           A / |S|
//   rest    what the sum of z and the evaluation of gelu add. A path may sum in another order in another tile: A times
//   own     storing z, rounding g, the product with w2. Equal units round equally if their z^ are equal bits; if they are
//           not, the roundings are independent. The sum of squared limits is the larger of S^2 and Q' (not less than Q, for
//           equal weights have equal errors) times b^2. Where several kinds have equal g, r Q is taken instead, with the r
//           of all units.
// The smallest of these limits holds; none is ever more than with A and r Q alone:
//   sum over k of [min(A error(g), |S| common + A rest) + A (storing + own)]
//   the same with 7 sqrt(sum over k of max(S^2, Q') b^2) for what averages out of A (storing + own)
//   sum over k of (|S| c + A e + A t) + 7 sqrt((sum over k of |S gelu'| s)^2 + sum over k of max(S^2, Q') b^2)
// The last adds up what averages out before it takes seven deviations: independent errors within
// +-b are sub-Gaussian with deviation b, independent ones add squares, and ones that depend on each
// other, as the common errors of different kinds do, add deviations at most (Hoelder). s is the
// deviation of the common error of z, b that of the sum, of storing and of own. The rest does not
// average out: c has the shared errors of y and the remainder of gelu's tangent over the common
// error, e is the evaluation, t the tangent's remainder over the rounding of z.
//
// Storing in 16 bits costs half a unit in the last place. All bounds contain 2^-20 of themselves
// for the oracle's own error and terms of second order; a value below 2^-24 of its bound is taken
// as 0.
//
// Variance, for the rms law: the same sums with each rounding uniform between its limits. Partial
// sums of n products a*b in f32 are those of a random order, n/3 (sum ab)^2 + n/6 sum (ab)^2. Units
// of a kind have S^2 of what z inherits from y, and the larger of S^2 and Q of their own roundings.
// What z inherits is in all kinds at once; out adds it up, and the factor by which that exceeds
// errors independent from kind to kind is measured on 64 to 512 elements.
//
// Noise, for the certificate: 7 standard deviations of the error before it is stored. dw of few
// channels, dx of constant dy, out where sum y = 0 meets equal weights, and y of two values cancel
// so far that rounding hides anything.
//
// Special. An example with an infinity or a NaN in conv, also by certain overflow in f32, or in dy
// is NaN, and so is each dw that sums a term of it. An infinite weight of the block follows IEEE
// 754 as the formula says. Where partial sums may overflow but need not, or dconv beyond f32 meets
// a small factor, or the sign of an infinity hangs on a value within its error, or a split infinity
// makes a NaN, right paths differ without limit: `is_open`. A tensor between the steps in f16
// overflows to an infinity where its value certainly does.
//
// Counterfeits leave examples of one or two elements alone: their y is 0 or +-1, nearly whatever
// went before.
#pragma once

#include <vector>

#include "oracles/core/oracle.h"

namespace assay::cheri {

std::vector<Oracle> oracles();

}  // namespace assay::cheri
