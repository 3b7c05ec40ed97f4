// SPDX-License-Identifier: Apache-2.0
// Rule 11 of the judge: laws on the data of a case.
#include <cmath>
#include <map>
#include <set>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/judge.h"
#include "properties/core/specimen.h"
#include "properties/core/trial.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Right to the ball, but the order of a sum depends on the number of the batch entry.
void add_up_odd_entries_backwards(const Call& call) {
  const int64_t taps = call.dims[dynamic_conv::kW];
  const TensorView& out = call.outputs[dynamic_conv::kOut];
  const auto read = [&](Input input, const Extents& at) {
    const ConstTensorView& view = call.inputs[input];
    return static_cast<const float*>(view.data)[offset_of(at, view.strides)];
  };
  for (int64_t i = 0; i < element_count(out.shape); ++i) {
    const Extents at = index_of(i, out.shape);
    float sum = 0;
    for (int64_t term = 0; term < taps; ++term) {
      const int64_t w = at[0] % 2 == 0 ? term : taps - 1 - term;
      const int64_t from = at[1] + w - taps + 1;
      if (from < 0) continue;
      sum += read(dynamic_conv::kK, {at[0], at[1], at[2], w}) * read(dynamic_conv::kX, {at[0], from, at[2]});
    }
    out.as<float>()[offset_of(at, out.strides)] = sum;
  }
}

Path path_with(std::function<void(const Call&)> run) {
  Path path = registry().op("dynamic_conv").path("cpu");
  path.name = "planted";
  path.dtypes = {DType::kF32};
  path.tunables = {};
  path.run = std::move(run);
  return path;
}

Subject subject_of(const Path& path) {
  Subject subject = registry().subject("dynamic_conv", "cpu");
  subject.path = &path;
  return subject;
}

Case case_of(std::string_view line) {
  return parse_case(std::string("dynamic_conv/planted/f32/") + std::string(line));
}

TEST(JudgeLaws, SeeWhatLiesInEveryBall) {
  const Path path = path_with(add_up_odd_entries_backwards);
  const Subject subject = subject_of(path);
  int broken = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Case which = case_of("b=3/t=9/d=5/w=5");
    which.seed = seed;
    const Verdict verdict = judge(subject, which, test::cpu());
    if (verdict.kind == VerdictKind::kPass) continue;
    ASSERT_EQ(verdict.kind, VerdictKind::kFail) << verdict.reason;
    EXPECT_THAT(verdict.reason,
                StartsWith("the law batch_independence is broken, an entry of the batch alone"));
    EXPECT_THAT(verdict.reason, HasSubstr("of the related problem is"));
    EXPECT_FALSE(verdict.outputs.empty());
    ASSERT_NE(verdict.evidence, nullptr);
    EXPECT_FALSE(verdict.evidence->tensors.empty());
    EXPECT_EQ(judge(subject, which, test::cpu()).reason, verdict.reason);
    ++broken;
  }
  EXPECT_GT(broken, 0);
}

TEST(JudgeLaws, AnErrorIsNamedBeforeABrokenLaw) {
  const Path path = path_with([](const Call& call) {
    add_up_odd_entries_backwards(call);
    const TensorView& out = call.outputs[dynamic_conv::kOut];
    if (out.size() > 0) out.as<float>()[0] += 1;
  });
  const Subject subject = subject_of(path);
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Case which = case_of("b=3/t=9/d=5/w=5");
    which.seed = seed;
    EXPECT_THAT(judge(subject, which, test::cpu()).reason, HasSubstr("compared elements of out are wrong"));
  }
}

// What is thrown in a related call is a verdict, except that it is not supported.
TEST(JudgeLaws, ThrowAsTheCallDoes) {
  for (const bool is_unsupported : {true, false}) {
    const Path path = path_with([&](const Call& call) {
      if (call.dims[dynamic_conv::kB] == 1)
        throw is_unsupported ? unsupported_error("b=1") : device_error("b=1");
      dynamic_conv::ops().front().path("cpu").run(call);
    });
    EXPECT_EQ(judge(subject_of(path), case_of("b=3/t=4/d=3/w=2"), test::cpu()).kind,
              is_unsupported ? VerdictKind::kPass : VerdictKind::kCrashed);
  }
}

TEST(JudgeLaws, TakeTheInputsOfTheCase) {
  const Op& op = registry().op("dynamic_conv");
  for (std::string_view layout : {"strided", "broadcast"}) {
    Case which = case_of(fmt::format("b=2/t=5/d=3/w=2/data=uniform+zeros/layout={}", layout));
    which.dtype = DType::kBF16;
    Problem problem(op, op.path("cpu"), which, test::cpu());
    problem.draw_inputs(7);
    const TensorBytes inputs = problem.inputs();
    const Trial trial(problem);
    const Values values = draw(trial), others = draw(trial, 2);
    for (size_t tensor = 0; tensor < inputs.size(); ++tensor) {
      for (size_t i = 0; i < values.elements[tensor].size(); ++i)
        ASSERT_EQ(values.elements[tensor][i],
                  read_element(inputs[tensor], DType::kBF16, static_cast<int64_t>(i)));
      EXPECT_NE(values.elements[tensor], others.elements[tensor]);
      for (double other : others.elements[tensor]) ASSERT_LE(std::abs(other), 1);
    }
    EXPECT_EQ(name_of(trial.which.layout), layout == "strided" ? "strided" : "dense");
  }
}

TEST(JudgeLaws, AreThoseThatHoldOnTheData) {
  const Subject subject = registry().subject("dynamic_conv", "cpu");
  const auto names = [&](std::string_view line, bool is_given = false) {
    std::set<std::string_view> names;
    for (const Law* law : laws_on(subject, case_of(line), is_given)) names.insert(law->name);
    return names;
  };
  const auto all = names("b=2/t=3/d=4/w=5");
  EXPECT_EQ(all.size(), subject.laws.size());
  EXPECT_EQ(names("b=2/t=3/d=4/w=5/data=integers+mask+zeros+ones"), all);
  for (std::string_view data :
       {"huge", "normal+nans", "normal+zeros+infinities", "normal+large_input", "spike"}) {
    const auto some = names(fmt::format("b=2/t=3/d=4/w=5/data={}", data));
    EXPECT_TRUE(some.contains("causality")) << data;
    EXPECT_FALSE(some.contains("scaling")) << data;
  }
  EXPECT_FALSE(names("b=2/t=3/d=4/w=5", true).contains("scaling"));
  EXPECT_TRUE(names("b=2/t=3/d=4/w=5", true).contains("causality"));
  EXPECT_TRUE(names("b=2/t=0/d=4/w=5").empty());
  EXPECT_TRUE(names("b=2/t=100/d=100/w=1").empty());
  Path other = *subject.path;
  other.deterministic = false;
  EXPECT_TRUE(laws_on(subject_of(other), case_of("b=2/t=3/d=4/w=5")).empty());
}

TEST(JudgeLaws, AreAllTriedOnSmallTensorsAndElseChosenByTheSeed) {
  const Subject subject = registry().subject("mhc_post", "cpu");
  EXPECT_EQ(tried_laws(subject, parse_case("mhc_post/cpu/f32/n=2/hc=3/h=4")), subject.laws);
  std::map<const Law*, int> chosen;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Case which = parse_case("mhc_post/cpu/f32/n=2/hc=3/h=200");
    which.seed = seed;
    const std::vector<const Law*> tried = tried_laws(subject, which);
    ASSERT_EQ(tried.size(), 1U);
    ++chosen[tried.front()];
  }
  for (const Law* law : subject.laws)
    EXPECT_GT(chosen[law], 2000 / (2 * std::ssize(subject.laws))) << law->name;
  EXPECT_EQ(chosen.size(), subject.laws.size());
}

}  // namespace
}  // namespace assay
