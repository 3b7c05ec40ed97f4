// SPDX-License-Identifier: Apache-2.0
// Outputs that somebody else computed obey the same rules as those of a path, and no path runs.
#include <cstring>

#include "properties/self/spoiled.h"

namespace assay {
namespace {

using test::cpu;
using test::expect;
using test::loose_oracle;
using test::small_case;
using testing::AllOf;
using testing::HasSubstr;

// Judges what `author` computes from the inputs of the case as outputs of a path that cannot run.
Verdict judge_work_of(const Path& author, const Case& which = small_case(), const Oracle* oracle = nullptr,
                      const std::function<void(std::vector<std::byte>&)>& spoil = {}) {
  const Op& op = registry().op(which.op);
  Problem computed(op, author, which, cpu());
  computed.draw_inputs(which.seed);
  computed.run();
  TensorBytes outputs = computed.outputs();
  if (spoil) spoil(outputs[0]);
  Path idle = op.path("cpu");
  idle.run = [](const Call&) { throw Error("the path ran"); };
  Problem problem(op, idle, which, cpu());
  problem.draw_inputs(which.seed);
  return judge_outputs({&op, &idle, oracle != nullptr ? oracle : &registry().oracle(which.op)}, problem,
                       idle.recipe(which.dims, which.dtype), std::move(outputs));
}

const Path& right() {
  return registry().op("dynamic_conv").path("cpu");
}

TEST(JudgeOutputs, PassesRightOnesWithTheWordsOfThePath) {
  const Verdict verdict = judge_work_of(right());
  EXPECT_EQ(verdict.kind, VerdictKind::kPass);
  EXPECT_EQ(verdict.reason, test::judge_path(right()).reason);
  EXPECT_EQ(verdict.evidence, nullptr);
}

TEST(JudgeOutputs, NamesAWrongElementAndKeepsIt) {
  const Verdict verdict = judge_work_of(right(), small_case(), nullptr, [](std::vector<std::byte>& out) {
    const float wrong = 1e6f;
    std::memcpy(&out[17 * sizeof(float)], &wrong, sizeof(float));
  });
  expect(verdict, VerdictKind::kFail, AllOf(HasSubstr("1 of 90"), HasSubstr("out[0, 3, 2] = 1000000")));
  ASSERT_NE(verdict.evidence, nullptr);
  ASSERT_EQ(verdict.evidence->tensors.size(), 3u);
  float kept = 0;
  std::memcpy(&kept, &verdict.evidence->tensors[2].bytes[17 * sizeof(float)], sizeof(float));
  EXPECT_EQ(kept, 1e6f);
}

// On integers all sums are exact.
TEST(JudgeOutputs, SaysWhereEachElementMustBeTheComputedValue) {
  const Case which = parse_case("dynamic_conv/cpu/f32/b=1/t=8/d=3/w=2/data=integers");
  EXPECT_EQ(judge_work_of(right(), which).reason, "all 24 elements are the computed values to the bit");
  const auto spoil = [](std::vector<std::byte>& out) {
    const float wrong = 0.5f;
    std::memcpy(&out[out.size() - sizeof(float)], &wrong, sizeof(float));
  };
  const auto says = [](std::string_view expected) {
    return testing::MatchesRegex(fmt::format(".*out.0, 7, 2. = 0.5, expected {}", expected));
  };
  expect(judge_work_of(right(), which, nullptr, spoil), VerdictKind::kFail, says("-?[0-9]+ to the bit"));
  const Case nonfinite = parse_case("dynamic_conv/cpu/f32/b=1/t=8/d=3/w=2/data=nonfinite");
  expect(judge_work_of(right(), nonfinite, nullptr, spoil), VerdictKind::kFail, says("-?(nan|inf)"));
}

TEST(JudgeOutputs, HoldsThemToTheRmsLaw) {
  const Oracle loose = loose_oracle(0x1p17);
  const Case which = parse_case("dynamic_conv/cpu/bf16/b=1/t=256/d=256/w=4/data=positive");
  expect(judge_work_of(right(), which, &loose), VerdictKind::kPass, testing::_);
  expect(judge_work_of(test::specimen("dynamic_conv", "output_truncated").path, which, &loose),
         VerdictKind::kFail, HasSubstr("rms"));
}

TEST(JudgeOutputs, AsksForTheCertificate) {
  const Oracle blind = loose_oracle(0x1p40);
  expect(judge_work_of(right(), small_case(), &blind), VerdictKind::kUninformative, HasSubstr("accept"));
}

TEST(JudgeOutputs, SkipsWhereThereIsNothingToCompare) {
  Case empty = small_case();
  empty.dims.set("d", 0);
  expect(judge_work_of(right(), empty), VerdictKind::kSkipped, HasSubstr("empty"));
}

}  // namespace
}  // namespace assay
