// SPDX-License-Identifier: Apache-2.0
// The rms law: whether the distances of a path from what its recipe computes are as large as those
// of right paths, all elements together. Balls are wide where errors rarely add up; this is not.
//
// Right paths are sampled kSamples times (Arithmetic::Mode::kSampled) on the very inputs. Rounding
// errors of different blocks of an output (Oracle::block_axes) are independent. The energy of a
// block is the sum of its squared distances. Let w be the most that a block has, and V the mean of
// the energy of all blocks together. Then Chernoff's bound says, for each t > 1,
//   P(energy >= t V) <= exp(-(V / w) (t ln t - t + 1)).
// The law allows the t for which the bound is 1e-9.
//
// A *flip* is a value near the middle of two numbers that rounds to the other one. Its energy is at
// most the square of an ulp, and of a radius. V is estimated from above: the largest energy of any
// sample, plus that of ln(1e9) / S flips. S samples miss so many flips with a probability of 1e-9.
// w is 4 times the largest energy of a block in any sample, or that of a flip.
//
// S = kSamples may all be small by chance where one block holds most of the energy. The law allows
// one block 5.7 times the largest of its samples. One normal number in 1000 is so much larger than
// each of four others. So a path that exceeds it is held against more samples, one after the other,
// and fails only if it still exceeds it after kSamplesOfAlarm: of normal numbers, 1 in 10^12 is 5.7
// times as large as each of 32 others.
//
// A value inside the formula that rounds to the other number moves whole rows by more than all f32
// noise together, and samples of some rows may miss it: of trimul in f16 (B7 N7 C6 H48), right
// paths have an rms of 2e-4 to 9e-4, and four of them on 512 elements had 3.5e-6. So the rms law
// applies where no value inside stays in doubt. Elsewhere the rank law does: in one row of each of
// R parts of the output that share few such values (Oracle::doubt_axes), a right path is the
// farthest of itself and kSamples right paths in 1 of 5. We allow for a path whose errors are twice
// those of the samples and whose roundings are in doubt a little more often. Such a path is more
// than twice as far as each sample in at most 1 row of 4. The law allows as many rows of R as a
// binomial distribution with p = 1/4 exceeds with a probability of 1e-9: 24 of 32, and all of less
// than 15.
//
// Both laws presume that what was sampled is like what is judged: the judge applies them to cases
// that spread errors.
#pragma once

#include <optional>
#include <span>

#include "oracles/core/oracle.h"
#include "properties/core/case.h"
#include "properties/core/compare.h"

namespace assay {

inline constexpr int kSamples = 4;
inline constexpr int kSamplesOfAlarm = 32;       // before a path is said to break the rms law
inline constexpr size_t kSampledElements = 512;  // at most: in runs of neighbours
inline constexpr size_t kSampledRuns = 16;       // a quarter where rows share much
inline constexpr int64_t kFewestOfLaw = 64;      // elements to which the rms law applies
inline constexpr size_t kRankedRows = 32;        // at most

struct Conforming {
  const Oracle& oracle;
  const Question& question;
  int output;
  Extents shape;
  DType dtype;
  std::span<const int64_t> elements;   // row-major positions, ascending
  std::span<const Expected> expected;  // one for each
  std::span<const double> got;         // one for each
};

// Nothing if no sampled element has a finite ball and a finite value.
std::optional<Conformity> conformity_of(const Conforming& judged);

// Whether rounding errors of elements are independent: continuous data, no element used twice.
bool spreads_errors(const Case& which);

// t V for the rms law, where so many samples have at most this energy, and this one of a block.
double largest_energy(double energy, double largest_block, double flip, int samples = kSamples);
// Of so many rows, how many a right path may be the farthest in.
int64_t most_farthest(int64_t rows);

}  // namespace assay
