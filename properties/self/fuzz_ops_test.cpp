// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// Fuzzing finds nothing wrong with the paths of any op.
#include <set>

#include "properties/core/fuzz.h"
#include "properties/self/support.h"

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

// The bounds of recipes of paths that cannot run here. The CPU path, which is at least as precise,
// stands in for them. It may be wrong where a less precise path overflows. But no bound may be too
// loose to mean anything. The first comparison that tells something earns trust for good.
TEST_P(FuzzEveryOp, BoundsOfEveryRecipeMeanSomething) {
  const Op& op = *GetParam();
  const auto precise = std::ranges::find(op.paths, DeviceKind::kCpu, &Path::device);
  ASSERT_NE(precise, op.paths.end());
  const Dims dims = test::small_dims(op, 3);
  FuzzOptions options;
  options.max_shrinks = 0;
  std::set<std::string> seen;  // the oracle knows a path by its recipes alone
  for (const Path& path : op.paths) {
    if (path.device == DeviceKind::kCpu) continue;
    std::string recipes;
    for (DType dtype : path.dtypes) recipes += path.recipe(dims, dtype).to_string() + "; ";
    if (!seen.insert(recipes).second) continue;
    Path stand_in = path;
    stand_in.device = DeviceKind::kCpu;
    stand_in.run = test::untuned(precise->run);
    stand_in.tunables = {};
    bool is_trusted = false;
    const Subject subject{.op = &op, .path = &stand_in, .oracle = &registry().oracle(op.name)};
    fuzz(subject, cpu(), options, [&](const Judged& judged) {
      const VerdictKind kind = judged.verdict.kind;
      EXPECT_NE(kind, VerdictKind::kMistrusted) << judged.which.to_string() << ": " << judged.verdict.reason;
      is_trusted = kind == VerdictKind::kPass || kind == VerdictKind::kFail;
      return !is_trusted;
    });
    EXPECT_TRUE(is_trusted) << path.name;
  }
}

}  // namespace
}  // namespace assay
