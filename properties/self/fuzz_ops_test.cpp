// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// Fuzzing finds nothing wrong with the paths of any op.
#include <cmath>
#include <set>

#include "properties/core/fuzz.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

using test::cpu;

class FuzzEveryOp : public testing::TestWithParam<const Op*> {};
INSTANTIATE_TEST_SUITE_P(Ops, FuzzEveryOp, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST_P(FuzzEveryOp, ProductionPathsPass) {
  const Op& op = *GetParam();
  FuzzOptions options;
  // ThreadSanitizer looks at threads, which depend on few things that are drawn.
  if (test::kIsSanitized) options.cases = test::kHasThreadSanitizer ? 30 : 60;
  for (const Path& path : op.paths) {
    if (path.device != DeviceKind::kCpu) continue;
    int64_t judged_cases = 0, passed = 0;
    fuzz(registry().subject(op.name, path.name), cpu(), options, [&](const Judged& judged) {
      ++judged_cases;
      // Infinities may meet what has no sign on this data, everywhere.
      const bool may_be_open = judged.which.data == Regime::kNonfinite;
      const std::string_view reason = judged.verdict.reason;
      const bool is_idle = judged.verdict.kind == VerdictKind::kSkipped &&
                           (reason.starts_with("empty") || (may_be_open && reason.starts_with("open")));
      EXPECT_TRUE(is_idle || judged.verdict.kind == VerdictKind::kPass ||
                  judged.verdict.kind == VerdictKind::kUninformative ||
                  judged.verdict.kind == VerdictKind::kUnsupported)
          << judged.which.to_string() << ": " << judged.verdict.reason;
      if (judged.verdict.kind == VerdictKind::kPass) ++passed;
      return true;
    });
    EXPECT_EQ(judged_cases, options.cases);
    // a path that refuses its cases shows nothing.
    EXPECT_GT(passed, options.cases / 2) << path.name;
  }
}

// Whether a comparison of finite values under the recipe of a path tells something before it is
// mistrusted. A NaN or an infinity tells wrong answers apart whatever the bounds are. The CPU path,
// which is at least as precise, stands in for paths that cannot run here.
bool bounds_mean_something(const Op& op, Path path, const Oracle& oracle) {
  const auto precise = std::ranges::find(op.paths, DeviceKind::kCpu, &Path::device);
  path.device = DeviceKind::kCpu;
  path.run = test::untuned(precise->run);
  path.tunables = {};
  FuzzOptions options;
  options.max_shrinks = 0;
  bool are_told = false, is_mistrusted = false;
  fuzz({.op = &op, .path = &path, .oracle = &oracle}, cpu(), options, [&](const Judged& judged) {
    is_mistrusted = judged.verdict.kind == VerdictKind::kMistrusted;
    are_told = judged.verdict.kind == VerdictKind::kPass &&
               std::ranges::all_of(judged.verdict.outputs, [](const OutputNumerics& output) {
                 return output.comparison.nonfinite == 0;
               });
    return !are_told && !is_mistrusted;
  });
  return are_told;
}

TEST_P(FuzzEveryOp, BoundsOfEveryRecipeMeanSomething) {
  const Op& op = *GetParam();
  const Dims dims = test::small_dims(op, 3);
  std::set<std::string> seen;  // the oracle knows a path by its recipes alone
  for (const Path& path : op.paths) {
    std::string recipes;
    for (DType dtype : path.dtypes) recipes += path.recipe(dims, dtype).to_string() + "; ";
    if (!seen.insert(recipes).second) continue;
    EXPECT_TRUE(bounds_mean_something(op, path, registry().oracle(op.name))) << path.name;
  }
}

TEST_P(FuzzEveryOp, BoundsThatAreTooLooseMeanNothing) {
  const Op& op = *GetParam();
  const Oracle loose =
      test::changed_oracle([](int64_t, Ball& ball) { ball.radius += 0x1p100 * std::abs(ball.mid); }, op.name);
  for (const Path& path : op.paths) EXPECT_FALSE(bounds_mean_something(op, path, loose)) << path.name;
}

}  // namespace
}  // namespace assay
