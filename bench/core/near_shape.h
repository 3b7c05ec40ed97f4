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

// The timed case with another outermost dimension: up to an eighth smaller, by a seed that no path
// knows, or 2 if it is 1. Nothing if the op has no such size.
std::optional<Case> near_case(const Op& op, const Case& which, uint64_t seed);

// What calls on it gave.
struct NearSamples {
  Case which;
  Recipe recipe;
  std::vector<double> ns;  // [ns] with cold caches
  TensorBytes outputs;     // of one of these calls; of each the brief sample of the seed alone
};

// How the times break the rule that a smaller problem takes no longer than the timed one, and one
// of twice its size no longer than twice as long; empty if they do not. A quarter more does not
// count, nor on a CPU a millisecond: a larger problem may be the first that has threads to wait
// for, and of calls that come seldom the branches are not learned.
std::string slower_than(const MedianInterval& timed, const Problem& problem, const NearSamples& near);

// As many as an interval of the median needs. Each is on a draw of its own (draws.h).
inline constexpr size_t kNearCalls = kDraws - 1;

// The draw whose answer goes to the oracle. The seed chooses.
size_t near_answer(uint64_t seed);

class NearShape {
 public:
  // Runs the path on it, which is judged but for the oracle (runs.h). That is a step of the timed
  // problem. Nothing if the path refuses the shape, or if there is no memory for it. Throws
  // PathThrew with what is wrong.
  static std::unique_ptr<NearShape> make(const Subject& subject, Problem& timed, uint64_t seed);

  Problem& problem() { return problem_; }
  // What comes before each timed call, as before those of the timed problem: a call that leaves its
  // answer, with a bit of each byte flipped, and other inputs.
  void call_and_flip();
  void change_inputs();
  void add(double ns);  // after each timed call
  size_t calls() const { return samples_.ns.size(); }
  // Once all are taken. Throws PathThrew for whatever the calls did to memory.
  NearSamples take();

 private:
  NearShape(const Subject& subject, Problem problem, Recipe recipe, uint64_t seed);

  const Subject* subject_;
  uint64_t seed_;
  NearSamples samples_;
  Problem problem_;
  Draws draws_;
};

}  // namespace assay
