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

// The oracle of an op with changed balls.
inline Oracle changed_oracle(std::function<void(int64_t element, Ball&)> change,
                             std::string_view op = "dynamic_conv") {
  Oracle oracle = registry().oracle(op);
  oracle.formula = [formula = oracle.formula, change = std::move(change)](
                       const Question& question, int output, const Arithmetic& arithmetic, int fault) {
    Evaluate right = formula(question, output, arithmetic, fault);
    if (arithmetic.mode() != Arithmetic::Mode::kBall) return right;
    return Evaluate(
        [right = std::move(right), change](std::span<const int64_t> elements, std::span<Ball> values) {
          right(elements, values);
          for (size_t i = 0; i < elements.size(); ++i) change(elements[i], values[i]);
        });
  };
  return oracle;
}

// With every ball made wider by so many ulp.
inline Oracle loose_oracle(double ulps) {
  return changed_oracle([ulps](int64_t, Ball& ball) {
    if (std::isfinite(ball.mid)) ball.radius += ulps * ulp_at(DType::kF32, ball.mid);
  });
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
