// SPDX-License-Identifier: Apache-2.0
// A failure keeps the very tensors that were judged.
#include "properties/core/evidence.h"

#include <cmath>
#include <cstring>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/fuzz.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

using test::cpu;
using test::input;
using test::judge_path;
using test::output;
using test::small_case;
using test::spoiled;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const Evidence& evidence) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : evidence.tensors) names.push_back(tensor.name);
  return names;
}

// The elements of a tensor in f32.
std::vector<float> values(const Evidence& evidence, std::string_view name) {
  const auto found = std::ranges::find(evidence.tensors, name, &NamedTensor::name);
  if (found == evidence.tensors.end()) throw Error("there is no {}", name);
  std::vector<float> values(found->bytes.size() / sizeof(float));
  std::memcpy(values.data(), found->bytes.data(), found->bytes.size());
  return values;
}

// The inputs that the case says.
void expect_drawn_inputs(const Evidence& evidence, const Case& which) {
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path("cpu"), which, cpu());
  problem.draw_inputs(which.seed);
  const TensorBytes drawn = problem.inputs();
  ASSERT_GE(evidence.tensors.size(), drawn.size());
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_EQ(evidence.tensors[i].name, op.inputs[i].name);
    EXPECT_EQ(evidence.tensors[i].bytes, drawn[i]);
  }
}

TEST(Evidence, APassLeavesNone) {
  EXPECT_EQ(judge_path(spoiled([](const Call&) {})).evidence, nullptr);
  Path path = spoiled([](const Call&) {});
  path.unsupported = [](const Dims&, DType) { return std::string("nothing is served"); };
  EXPECT_EQ(judge_path(path).evidence, nullptr);
}

TEST(Evidence, HoldsInputsAndOutputs) {
  const Verdict verdict = judge_path(spoiled([](const Call& call) { output(call)[17] = 1e6f; }));
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_THAT(names(*verdict.evidence), ElementsAre("x", "k", "out"));
  EXPECT_EQ(values(*verdict.evidence, "out")[17], 1e6f);
  EXPECT_EQ(verdict.evidence->differs, "");
  expect_drawn_inputs(*verdict.evidence, small_case());
}

TEST(Evidence, HoldsWhatOnlyTheJudgedCallComputed) {
  int calls = 0;
  Path path = spoiled([&calls](const Call& call) {
    if (++calls == 3) output(call)[17] = 1e6f;
  });
  path.deterministic = false;
  EXPECT_EQ(judge_path(path).kind, VerdictKind::kPass);
  const Verdict verdict = judge_path(path);
  EXPECT_EQ(judge_path(path).kind, VerdictKind::kPass);
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_THAT(names(*verdict.evidence), ElementsAre("x", "k", "out", "out.second_run"));
  EXPECT_EQ(values(*verdict.evidence, "out")[17], 1e6f);
  EXPECT_NE(values(*verdict.evidence, "out.second_run")[17], 1e6f);
  EXPECT_EQ(verdict.evidence->differs, "1 of 90 elements of out and out.second_run");
}

TEST(Evidence, HoldsBothRunsOfAPathThatDoesNotRepeatItself) {
  int calls = 0;
  const Verdict verdict = judge_path(spoiled([&calls](const Call& call) {
    for (int i = 0; i < 3; ++i) output(call)[i] = std::nextafter(output(call)[i], ++calls > 3 ? 9.0f : -9.0f);
  }));
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_THAT(verdict.reason, HasSubstr("deterministic"));
  EXPECT_THAT(names(*verdict.evidence), ElementsAre("x", "k", "out", "out.second_run"));
  EXPECT_EQ(verdict.evidence->differs, "3 of 90 elements of out and out.second_run");
}

TEST(Evidence, HoldsAnInputBeforeAndAfterThePathChangedIt) {
  const Verdict verdict = judge_path(spoiled([](const Call& call) { *input(call, dynamic_conv::kK) = 77; }));
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_THAT(names(*verdict.evidence), ElementsAre("x", "k", "k.after_call", "out"));
  EXPECT_EQ(values(*verdict.evidence, "k.after_call")[0], 77);
  EXPECT_EQ(verdict.evidence->differs, "1 of 720 elements of k and k.after_call");
  expect_drawn_inputs(*verdict.evidence, small_case());
}

TEST(Evidence, HoldsInputsThatWereGivenThoughThePathChangedThem) {
  const Case which = small_case();
  const Subject subject = registry().subject(which.op, which.path);
  Problem other(*subject.op, *subject.path, which, cpu());
  other.draw_inputs(99);
  const TensorBytes given = other.inputs();
  const Path path = spoiled([](const Call& call) { *input(call, dynamic_conv::kK) = 77; });
  const Verdict verdict = judge({subject.op, &path, subject.oracle}, which, cpu(), {.inputs = &given});
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_EQ(verdict.evidence->tensors[0].bytes, given[0]);
  EXPECT_EQ(verdict.evidence->tensors[1].bytes, given[1]);
}

TEST(Evidence, HoldsWhatAnUntunedCallGives) {
  int calls = 0;
  Case second = small_case();
  second.state = parse_state("second_call");
  const Verdict verdict = judge_path(spoiled([&calls](const Call& call) {
                                       if (++calls == 2 || calls == 3) output(call)[17] = 1e6f;
                                     }),
                                     second);
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_THAT(names(*verdict.evidence), ElementsAre("x", "k", "out", "out.untuned_call"));
  EXPECT_EQ(verdict.evidence->differs, "1 of 90 elements of out and out.untuned_call");
  expect_drawn_inputs(*verdict.evidence, small_case());
}

TEST(Evidence, HoldsTheTensorsOfTheStepThatWentWrong) {
  int calls = 0;
  Case stepped = small_case();
  stepped.state = parse_state("warm+after:f32,b=1,t=3,d=2,w=1");
  const Verdict verdict = judge_path(spoiled([&calls](const Call& call) {
                                       if (++calls == 2) output(call)[5] = 1e6f;
                                     }),
                                     stepped);
  ASSERT_NE(verdict.evidence, nullptr) << verdict.reason;
  EXPECT_THAT(verdict.reason, HasSubstr("step 2"));
  EXPECT_THAT(names(*verdict.evidence),
              ElementsAre("x", "k", "x.step", "k.step", "out.step", "out.step.untuned_call"));
  EXPECT_EQ(values(*verdict.evidence, "out.step").size(), 6u);
  EXPECT_EQ(values(*verdict.evidence, "out.step")[5], 1e6f);
  EXPECT_EQ(verdict.evidence->differs, "1 of 6 elements of out.step and out.step.untuned_call");
  expect_drawn_inputs(*verdict.evidence, small_case());
}

TEST(Evidence, OfAThrowIsTheInputsOfTheCase) {
  const auto bug = [](const Call&) { throw std::runtime_error("a bug"); };
  Case stepped = small_case();
  stepped.state = parse_state("second_call");  // throws in the step, on other data
  for (const Case& which : {small_case(), stepped}) {
    const Verdict verdict = judge_path(spoiled(bug), which);
    ASSERT_EQ(verdict.kind, VerdictKind::kCrashed) << verdict.reason;
    EXPECT_THAT(names(*verdict.evidence), ElementsAre("x", "k"));
    expect_drawn_inputs(*verdict.evidence, small_case());
  }
}

TEST(Evidence, IsThatOfTheShrunkCase) {
  const Subject subject = registry().subject("dynamic_conv", "specimen.tap_dropped");
  FuzzOptions options;
  options.cases = 20;
  int64_t shrunk = 0;
  fuzz(subject, cpu(), options, [&](const Judged& judged) {
    if (!is_failure(judged.verdict.kind)) return true;
    shrunk += judged.shrunk_from.has_value();
    expect_drawn_inputs(*judged.verdict.evidence, judged.which);
    return true;
  });
  EXPECT_GT(shrunk, 0);
}

TEST(Evidence, IsLeftOutIfItIsTooLarge) {
  const auto zeros = [](std::string name, int64_t bytes) {
    return std::vector<NamedTensor>{
        {std::move(name), DType::kF32, {bytes / 4}, std::vector<std::byte>(static_cast<size_t>(bytes))}};
  };
  Evidence evidence;
  evidence.add(zeros("a", kLargestEvidence - 4));
  evidence.add(zeros("b", 4));
  EXPECT_THAT(names(evidence), ElementsAre("a", "b"));
  evidence.add(zeros("c", 4));
  evidence.add(zeros("d", 4));
  EXPECT_THAT(names(evidence), ElementsAre());
  EXPECT_EQ(evidence.left_out, "the tensors take 268435460 bytes; at most 268435456 are kept");
  // Nothing is taken from a problem that is too large.
  const Case large = parse_case("dynamic_conv/cpu/f32/b=1/t=1048576/d=8/w=8");
  const Subject subject = registry().subject(large.op, large.path);
  EXPECT_THAT(evidence_for(Problem(*subject.op, *subject.path, large, cpu())).left_out,
              HasSubstr("at most 268435456 are kept"));
  EXPECT_EQ(evidence_for(Problem(*subject.op, *subject.path, small_case(), cpu())).left_out, "");
}

TEST(Evidence, KnowsWhichTensorAnotherDiffersFrom) {
  Evidence evidence;
  const NamedTensor lonely{"out.second_run", DType::kF32, {1}, std::vector<std::byte>(4)};
  EXPECT_THAT(test::error_of([&] { evidence.add_differing({lonely}); }, Error::Kind::kInternal),
              HasSubstr("there is no out beside out.second_run"));
}

}  // namespace
}  // namespace assay
