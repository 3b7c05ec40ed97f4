// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// Fuzzing finds nothing wrong with the paths of any op.
#include "properties/core/fuzz.h"
#include "properties/self/production.h"

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
    const Subject subject = registry().subject(op.name, path.name);
    const auto judge_it = [&](const Case& which) { return test::judge_production(subject, which, cpu()); };
    fuzz(subject, judge_it, options, [&](const Judged& judged) {
      ++judged_cases;
      // Infinities may meet what has no sign on this data, everywhere.
      const bool may_be_open = test::may_be_open(judged.which.data);
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

}  // namespace
}  // namespace assay
