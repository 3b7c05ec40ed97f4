// SPDX-License-Identifier: Apache-2.0
// The oracle of trimul, in double: the exact values, and what rounding may do to a path that keeps
// the contract (kernels/trimul/trimul.h).
//
// u = 2^-24. q is the error of one addition to a sum of products: u, or 2^-23 where a tensor core
// adds (it truncates; see "Sums"). f is that of making a value a factor, and of a weight as a
// factor: 0 in f32, half a unit in the last place in tf32, bf16, f16, 3/2 * 2^-16 for a split into
// two bf16, 3/2 * 2^-22 into two tf32 (three products share lo*lo and both rests). f16 adds
// A * 2^-38 for what underflows, with the magnitude A that the contract gives, and A * 2^-37 in
// hidden, whose A may be stored as 2^12; the other formats half of their smallest number, 2^-134
// (bf16) or 2^-137 (tf32). Of f32's own values underflow takes 2^-149, of a sigmoid 2^-126. It may
// take all of each: it is granted linearly to every product, with what multiplies that: xn, W xn
// (2^-149 n with n q M), left and right and their products, hidden, y, z, W z; and in both norms
// the mean (in m) and d / sigma, which the weight multiplies. A value that is 0 need not be 0 in a
// path whose errors are not; only what is 0 whatever was rounded loses nothing.
// i is half a unit of the dtype between the steps. R is the range of a row, the largest difference
// of two of its values. a(n) = min((n + 1)/2, 18 + n/64).
//
// A value with a hat is a path's. The error of a value is described by s, the sum of the squared
// limits of the independent roundings that it consists of, each times the derivative by it. By
// Hoeffding's inequality the error is at most 7 sqrt(s), but for a probability of 2
// exp(-7^2/2) = 5e-11; its variance, with roundings uniform between their limits, is s/3. Equal xn
// have equal errors: with r of n terms equal, r times s stands for them. Errors of projection and
// gate of one edge come from the same xn, which doubles s at worst.
//
// xn      d = x - mean is wrong by u (R + |d|), two differences of numbers in R. A term of the mean goes through a(C) additions
//         on average, one of V through 2a(C) at most: j deviations from one of the row's values add up to jR, squares to CV,
//         so that the mean is wrong by m = (a(C) + 1) u R, 2uR more for the product with 1/C unless C is a power of two, and
//         its underflow;
//         1/sqrt(V + eps) relatively by rho, the end of the interval |V^ - V| <= 2 mean(|d|) 2uR + (2uR + m)^2 + 2a(C) u V,
//         and 4u for the product with 1/C, the sum, the root, the quotient. Two products and a sum make xn of d.
//         None of this is random: what is lost of x beside a far value, of xn beside its bias, and by sums of numbers of few
//         bits has the sign that data choose, in all channels and at all edges. It is granted of p. As a factor:
//         s = (f xn)^2
// p       a projection W xn:  s = r sum W^2 s(xn); and, of what may have one sign at all edges, with n = C or, of split
//         factors, 3C,
//           m/sigma |sum W w| + rho |p - W bias| + u R/sigma sum |W w| + 3u sqrt(C V)/sigma |W w| + u sqrt(C) |W xn| + n q M,
//         |.| of a row its norm: by Cauchy's inequality this contains u |d|, the products and the sum of each xn. M^2 is the
//         largest of p^2 + sum W^2 xn^2 and the mean squares of partial sums of this data, for c that ascends and for c
//         that descends; of sums in other orders M is assumed. What errs alike at all edges is kept apart: s_w = f^2 r sum
//         W^2 xn^2 over the weights that are no numbers of the format, r of those of a row that are equal; and, where
//         f > 0, the part of s of channels whose norm.weight is 0: there xn is the bias
// left    mask * p * sigmoid(g):  the greatest slope of the sigmoid in g +- its error, which falls with |g|; a sigmoid in
//         f32 is right to 4u + (8 + 2|g|) u (1 - sigmoid) of itself, with factors of f16, where 1/(ab) may serve
//         two of them, 5u. Two products. Rounded as a factor, and stored: f and i of |left| + 7 sqrt(2 s) + 7 sqrt(s_w)
// hidden  s = r sum_k (right^2 s(left) + left^2 s(right)), and n q M, n = N or 3N, with M of left right over k as above.
//         From N = 256 on the partial sums are those after each eighth term, and their root mean square sqrt(28/N sum
//         left^2 right^2) more, for what up to seven terms change. r of the rows of xn that are equal, of both sides (on
//         the diagonal they are the same) and without those that the mask makes 0; of weights (sum_k |right|
//         sqrt(s_w(left)) + ...)^2, since their errors are those of all k. For products of two errors,
//         s(left) and s_w(left) meet |right| + 7 sqrt(s_w(right)), s(right) meets |left| + 7 sqrt(s_w(left)), and
//         49 s(left) s(right) is added. E denotes 7 sqrt(2 s) + 7 sqrt(s_w) + n q M, and i of |hidden| and all that.
//         Unless all channels are known at once (below), factors are split, or a norm.weight is 0, weights are followed through
//         the sum over k, where that is less: the root of s_w is f sum sqrt(sum_c r W^2 T^2) over the four matrices,
//         T[c] = sum_k right left' xn[c] with the derivative left' of left by p or g, or the same of right. Then
//         E = 7 sqrt(2 s + s_w) + rest + n q M, and i as above. Of products, of which a = 7 sqrt(s_w(p)) and
//         b = 7 sqrt(s_w(g)) are a part, those with errors of xn are random: for this s(left) has b^2 (slope^2 s(p) + (p
//         curve)^2 s(g)) besides. The others and what is lost add up in `rest`: |right| |mask| (slope a b + |p| curve b^2 / 2), likewise
//         of right, and 49 sqrt(s_w(left) s_w(right)). curve: the least of slope and 1 / (6 sqrt(3))
// norm    what follows sums over h, where the errors of hidden are not independent: all of them come from the same xn. They
//         are added without the root. D = hidden - mean; m = mean(E) + (a(H) + 1) u R, with 2uR more as above, and u |mean|
//         where hidden is stored in 16 bits: there the mean may be rounded to one number; rho is the end of the interval of
//         1/sqrt(V + eps), and 4u as above, with |V^ - V| <= 2 mean(|D| (E + 2uR)) + mean((E + 2uR)^2) + m^2 + 2a(H) u V,
//         or, if that is less, |sqrt(V^) - sqrt(V)| <= sqrt(mean((E + 2uR)^2)) + m - mean(E) by the triangle inequality: of
//         both ends of the interval the one at which 1/sqrt(V^ + eps) is wrong by more;
//         y wrong by |w| ((E + 2uR + m) (1 + rho) + |D| rho) / sigma + 3u |y - bias| + u |y|, and never by more than two
//         normalised values can differ. Hidden channels with equal weights are v - v = 0 whatever rounding did to v
// z       gate * error(y) + (|y| + error(y)) * error(gate), in which i * gate is of the gate with its error; u and f of |z| and
//         that; underflow
// out     sum_h |W| (error(z) + f |z| + f error(z)) + n q sum |W z|, n = H or 3H. What rho makes wrong is one factor of all channels: if
//         that is less, rho |sum_h W gate w D| / sigma stands for the part of |D| rho in all error(z)
//
// Roundings that are alike. Values that differ by less than a unit of the format, or by about whole
// units, round alike though they are not equal: (x - x^)/l is a function of the position of x
// between two numbers of the format alone, a saw-tooth of limits +-1. If the values are moved by
// the same random part of a unit, as all that is added to them before does, the errors of two of
// them at the distance d, in units, have the correlation 1 - 6 d (1 - d): 1 of equal ones, 0 on
// average over all distances. kappa = sum_jk (1 - 6 d (1 - d)) / n says how many of n roundings
// count as one: about 1 of values at random positions, n of equal ones. A sum of D e with D that
// know nothing of the positions has kappa times the variance of independent errors, that is kappa
// l^2 / 3 sum D^2; since errors that are uniform between their limits are sub-Gaussian with this
// variance, 7 sqrt(s) holds with max(1, 2 kappa / 3) l^2 in place of l^2, the 2 for the other side,
// whose values may be alike as well. This grows the squared limits of
//   xn       f xn, with the larger kappa of its channel in all edges of one first node, and of all their channels; divided
//            by the r of equal edges and that of equal values of the edge, which count the same values already. And with
//            that of the edge's own channels, which is all that the gate of the output has
//   left     f left and i left, with that of its channel, for all channels at once also with that of all of them
//   weights  f W, with that of its row, its matrix, all of them: the larger one of this and r
//   others   f z, i gate, i hidden, over h
// A gate that is known better than to a unit, as one near 1 is, is rounded by no more than its
// distance from the nearest number of the format and its own error; with all channels at once this
// stands for i gate where it is less, and n of them may all be alike.
// Numbers of the format and 0 have no error and no part in this. Of split factors a third of the
// limit is lo*lo, whose position is that between numbers of 11 (8) bits, and two thirds are what is
// left of twice as many bits.
//
// Sums. What an addition of a tensor core loses has one sign, that of the partial sum, is at most
// 2^-23 of it, and hangs on where it lies between two powers of two, which data may arrange; of
// terms below half a unit of the sum f32 loses all that they are. None of it is random, and n of
// them do not cancel each other. By Cauchy's inequality n partial sums whose mean square is at most
// M^2 lose at most n q M:
//   hidden  n q M is added to E; with all channels at once to second
//   p       with underflow and what else is granted of it linearly it is added to its limit, and so is what that makes of
//           hidden, sum_k |right left'/p| n q M: as a seventh of n q M in the root of s_w; with all channels at once in second
// That is a chain of n additions. A tensor core adds k >= 4 products to a sum at once: it cuts
// these k + 1 off one bit or more behind the last bit of the largest [Li et al. 2024, arXiv
// 2403.00232], which loses (k + 1)/2 q of that, and then their sum, q of that. A chain of k
// additions is granted k q M, and M^2 contains the squares of terms that are larger than the sums.
// Parts of a sum that are added up in f32, each by a rounding of q/2, are another order, of which M
// is assumed as above.
//
// All channels at once. Where factors are rounded and the problem is small (2^25 derivatives, 2^33
// products, with 64 for what else a term of hidden takes), or else (2^25 pairs of channels, 2^33
// products for a node) at the edges between some nodes of one batch, the smaller of the above and
// of this holds. The nodes are 0 and N-1 of the first batch, N-2 and N-1 of the last one; and, as
// long as all of them together need no more than two of the largest nodes would, N-2 and 2N/5 of
// the first, 0 and 2N/5 of the last one. Any sample that the judge compares has these edges, those
// of 2N/5 in some channels only. At all others the above alone holds, which in bf16 is more than
// most values: a fault of a few such edges alone does not show; one of many does by the rms of the
// error.
// To first order out[c] is wrong by sum_e D_e e, over the independent roundings e within +-l_e, so
// by no more than sum |D_e| l_e and, but for the probability above, 7 sqrt(s), s = sum (D_e l_e)^2:
// the smaller of both sums over everything. With y' = D/sigma, a = W gate w of the output,
// e = (error of hidden)/sigma, tau = mean(y' e), X = sum a (e - mean(e)), Y = sum a y' the norm
// adds exactly
//         (X - tau Y) / k + ((1 + tau) / k - 1) Y,   k^2 = (1 + tau)^2 + F,   F = mean(e^2) - mean(e)^2 - tau^2,
//         at most   |X - tau Y| / (1 + tau) + |Y| min(1, F / (2 (1 + tau)^2)).   X - tau Y is linear in the errors
//         of hidden, with A = (a - mean(a) - y' mean(a y')) / sigma; tau with y' / (H sigma)
//   quotient  |x| / (1 + tau), whose terms that are not linear are at most p and p_tau, exceeds t only if a linear
//             form, x - t tau or -x - t tau, exceeds t (1 - p_tau) - p. The limit is the t that makes this
//             7 sqrt(s_x + 2 t |s_xtau| + t^2 s_tau), s_xtau = sum D_e(x) D_e(tau) l_e^2; or, if that is less, the
//             quotient of the limits
//   of xn     one l for all roundings of a value. D = sum_h A (right left' + left right') for both sides' edges;
//             equal edges count as the larger of the square of their sum and the sum of squares, and so do all edges
//             in a channel of xn whose norm.weight is 0. The gate's edge (i,j) may be one of them: its deviation is
//             added. left' = mask (sigmoid Wp + p sigmoid' Wg). Of a large problem the sum of squares of a form A is
//             A M A, M = sum_k right right (left' left') + left left (right' right'), H x H, and r equal edges count r
//             times; where a norm.weight is 0, the above alone holds. What M and its product with A cancel is the
//             oracle's own error, 2^-40 (sum |A| sqrt(M_hh))^2
//   weights   f |W| (0 if W is a number of the format) times sum_k right left'/W, once for all k; r of all weights
//             that are equal. Weights of the last product that are among those of projections err as they do: with
//             s_p, s_o of both, 2 sqrt(s_p s_o) is added
//   channel   what is rounded in one channel alone: squares, times the number of channels with equal weights. If
//             left has a channel with the weights of one of right, both are equal where xn is: the larger r of
//             both sides' edges together, as of xn
//   second    what is no independent rounding: what sums, underflow and hidden's storage lose, linearly; what one side
//             loses of p, g and itself times all errors of the other one, and what is certain of y times all of the
//             gate. Products of two errors with deviations a, b have deviation ab and are less than 62 of it with the
//             probability above (moments of order 23.8: e (23.8 - 1) [Bonami]), plus ab for their mean. Those of
//             xn with xn add up over h, those with a rounding of one channel in squares. The second
//             derivative of the sigmoid is at most its slope in g +- its error, and 1 / (6 sqrt(3)). If that is less, the
//             sum over k of products of limits: those of p and g are 7 sqrt(s + s_w), or the sum of the limits of what
//             they consist of
//   F         is mean(e N e), N = 1 - (ones + y' y')/H, with eigenvalues from 0 to 1. The linear part of e has a
//             covariance of at most S + G: the diagonal S of the channels' own roundings, G of those of xn. With
//             T = trace(N G), n the diagonal of N and x = 7^2/2, the root of F is at most that of
//             (sum S n + T + 2 sqrt(x) (sqrt(sum S^2 n) + T) + 2 x (max S + T)) / H [Hsu, Kakade, Zhang 2012] and
//             that of the mean square of second, added; and F at most the mean of the squared limits of e
//
// Bounds contain 2^-20 of themselves for the oracle's own error and terms of higher order.
//
// Variance: (s + s_w + the square of what sums lose) / 3 up to hidden; y and out add the squares,
// and y once more what all hidden channels share.
// Noise: 7 standard deviations; with all channels at once that bound, with roundings 1/sqrt(3) as
// large and 3 * 65 / 62 / 2 of the third that is then left of second order. For the certificate no
// bound by independent errors and their products is closer than one of twice the noise, since 65
// equal errors reach sqrt(3 * 65) / 7 = 2 times theirs; products of two such sums reach 3 * 65 / 62
// times. What the quotient and what sums lose count as products do, which is a choice: noise
// decides what the certificate asks for, not what passes.
// Where hidden and its norm cancel six bits or more (a value, or the root of the sum of its squared
// terms, is 64 times the standard deviation), all errors inside the bound: hidden channels that are
// nearly equal leave little but rounding.
//
// Special. An infinity or a NaN in left or right makes hidden, and so out, NaN. What may overflow
// f32 but need not, a sigmoid or a product with an infinity whose other factor has no certain sign,
// is open; so is all where an infinite input makes scales of f16 meaningless, or a finite weight is
// infinite as a factor of another format.
//
// Counterfeits leave two hidden channels alone, whose normalised values are +-1 nearly whatever
// went before.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "oracles/core/oracle.h"

namespace assay::trimul {

// Where a path rounds.
enum class Stage : uint8_t {
  kNormIn,         // xn
  kProjections,    // its factors and sums
  kGates,          // sigmoids of left and right, their products with projection and mask
  kContraction,    // its factors and sums
  kHiddenStorage,  // between the contraction and the norm
  kNormOut,        // y
  kOutGate,        // its sigmoid and storage, z
  kOutProjection,  // its factors and sums
};
inline constexpr std::array kStages{Stage::kNormIn,      Stage::kProjections,   Stage::kGates,
                                    Stage::kContraction, Stage::kHiddenStorage, Stage::kNormOut,
                                    Stage::kOutGate,     Stage::kOutProjection};
std::string_view name_of(Stage stage);  // "norm_in"

// The variances of the stages alone sum up to nearly that of all stages; bounds contain terms of
// the oracle's own and of higher order.
std::vector<Oracle> oracles();

}  // namespace assay::trimul
