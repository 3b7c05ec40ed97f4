// SPDX-License-Identifier: Apache-2.0
// A problem of almost the timed shape, beside the timed one. A path that is right or fast for the
// shapes that people publish, and for no others, differs on it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/core/draws.h"
#include "bench/core/median.h"
#include "properties/core/problem.h"

namespace assay {

// The timed case with one dimension smaller, by an eighth at most: the first of the two outermost
// ones that is 16 or more. The seed, which no path knows, chooses among the sizes that keep its
// alignment, up to multiples of 64. Nothing if both are smaller than 16, or if no path serves
// fewer.
std::optional<Case> near_case(const Op& op, const Case& which, uint64_t seed);

// Calls that take longer have none beside them: it would take as long again as the others.
inline constexpr double kLongestBesideNear = 0.4;  // [s]

// Each timed call is on a draw of its own (draws.h).
inline constexpr size_t kNearCalls = kDraws - 1;

// The draw whose answer goes to the oracle. The seed chooses.
size_t near_answer(uint64_t seed);

// What calls on it gave.
struct NearSamples {
  Case which;
  Recipe recipe;
  std::vector<double> ns;  // [ns] kNearCalls of them, with cold caches
  TensorBytes outputs;     // of near_answer(); of each the brief sample of the seed alone
};

// The shortest of some times, or the second if that is more than twice as long as it is `known` to
// take: one call may be quick on purpose.
double shortest(std::vector<double> times, double known);

// How the times break the rule that a smaller problem takes no longer; empty if they do not. A
// quarter more of the timed problem's does not count, nor 2 us, nor on a CPU a millisecond: another
// size may be the first that has threads to wait for, and of calls that come seldom the branches
// are not learned.
std::string why_slower(const MedianInterval& timed, const Device& device, const NearSamples& near);

class NearShape {
 public:
  // Calls the path on the near case. Nothing if there is no such case, if the path refuses it, or
  // if there is no memory for it. Throws PathThrew with what is wrong. It is a step of the timed
  // problem.
  static std::unique_ptr<NearShape> make(const Subject& subject, Problem& timed, uint64_t seed);

  Problem& problem() { return problem_; }
  std::string step() const;  // "a call of dynamic_conv/cpu/..."
  // What comes before each timed call, as before those of the timed problem: a call that leaves its
  // answer, with a bit of each byte flipped, and other inputs. That call is on the inputs of the
  // timed one before it: returns false if a deterministic path answers otherwise now.
  bool call_and_flip();
  void change_inputs();
  void add(double ns);  // after each timed call
  size_t calls() const { return samples_.ns.size(); }
  // Once all are taken. Throws PathThrew for whatever the calls did to memory.
  NearSamples take();

 private:
  NearShape(const Subject& subject, Problem problem, Recipe recipe, uint64_t seed);
  uint64_t hash_and_flip();  // of the outputs

  const Subject* subject_;
  uint64_t seed_;
  NearSamples samples_;
  Problem problem_;
  Draws draws_;
  std::optional<uint64_t> answer_;  // hash of the last timed one
};

}  // namespace assay
