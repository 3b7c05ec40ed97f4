// SPDX-License-Identifier: Apache-2.0
// What the tests of the judge share: a small case of dynamic_conv, and its production path with
// spoiled results.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/judge.h"
#include "properties/self/support.h"

namespace assay::test {

inline Case small_case() {
  return parse_case("dynamic_conv/cpu/f32/b=2/t=9/d=5/w=8/seed=3");
}

// The production path, with `spoil` after each call.
inline Path spoiled(std::function<void(const Call&)> spoil) {
  Path path = registry().op("dynamic_conv").path("cpu");
  path.run = [run = path.run, spoil = std::move(spoil)](const Call& call) {
    run(call);
    spoil(call);
  };
  return path;
}

inline Verdict judge_path(const Path& path, const Case& which = small_case(), const Oracle* oracle = nullptr,
                          Device& device = cpu()) {
  const Registry& all = registry();
  return judge({&all.op(which.op), &path, oracle != nullptr ? oracle : &all.oracle(which.op)}, which, device);
}

// The oracle of dynamic_conv with every bound widened by a factor.
inline Oracle loose_oracle(double factor) {
  Oracle oracle = registry().oracle("dynamic_conv");
  oracle.solve = [solve = oracle.solve, factor](const Question& question, int output) -> Answer {
    return [answer = solve(question, output), factor](std::span<const int64_t> elements,
                                                      std::span<Expected> expected) {
      answer(elements, expected);
      for (Expected& e : expected) e.bound *= factor;
    };
  };
  return oracle;
}

inline float* output(const Call& call) {
  return call.outputs[dynamic_conv::kOut].as<float>();
}
inline float* input(const Call& call, Input which) {
  return const_cast<float*>(call.inputs[which].as<float>());
}

inline void expect(const Verdict& verdict, VerdictKind kind, const testing::Matcher<std::string>& reason) {
  EXPECT_EQ(name_of(verdict.kind), name_of(kind)) << verdict.reason;
  EXPECT_THAT(verdict.reason, reason);
}

}  // namespace assay::test
