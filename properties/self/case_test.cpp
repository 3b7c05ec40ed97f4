// SPDX-License-Identifier: Apache-2.0
#include "properties/core/case.h"

#include "properties/self/support.h"

namespace assay {
namespace {

using test::error_of;
using testing::AllOf;
using testing::HasSubstr;

rc::Gen<std::string> arbitrary_name() {
  return rc::gen::nonEmpty(
      rc::gen::container<std::string>(rc::gen::elementOf(std::string("abcxyz_.0123456789"))));
}

template <class T>
T any_of(std::span<const T> values) {
  return *rc::gen::elementOf(std::vector<T>(values.begin(), values.end()));
}

State any_state() {
  State state;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    Step step{.kind = any_of(all_steps())};
    if (step.kind == StepKind::kForced) {
      step.tunable = *arbitrary_name();
      step.config = Config{{*arbitrary_name(), *rc::gen::arbitrary<int64_t>()}}.to_string();
    }
    if (names_input(step.kind)) step.input = *arbitrary_name();
    if (step.kind == StepKind::kAfter) {
      step.dtype = *rc::gen::element(DType::kF32, DType::kF16, DType::kBF16);
      step.dims.set(*arbitrary_name(), *rc::gen::arbitrary<int64_t>());
      step.layout = any_of(all_layouts());
    }
    state.steps.push_back(step);
  }
  return state;
}

Case any_case() {
  Case result;
  result.op = *arbitrary_name();
  result.path = *arbitrary_name();
  result.dtype = *rc::gen::element(DType::kF64, DType::kF32, DType::kF16, DType::kBF16);
  for (int i = *rc::gen::inRange(0, 7); i > 0; --i) {
    const std::string key = *arbitrary_name();
    if (key == "data" || key == "layout" || key == "state" || key == "seed") continue;
    result.dims.set(key, *rc::gen::arbitrary<int64_t>());
  }
  result.data = any_of(all_regimes());
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) result.data.mix_in(any_of(all_ingredients()));
  result.layout = any_of(all_layouts());
  result.state = any_state();
  result.seed = *rc::gen::arbitrary<uint64_t>();
  return result;
}

TEST(Case, PrintsOneLine) {
  Case c{.op = "dynamic_conv", .path = "cpu", .dtype = DType::kBF16, .dims = {{"b", 2}, {"t", 17}}};
  EXPECT_EQ(c.to_string(), "dynamic_conv/cpu/bf16/b=2/t=17/data=normal/state=first_call/seed=0");
  c.layout = Layout::kStrided;
  c.seed = 7;
  EXPECT_EQ(c.to_string(),
            "dynamic_conv/cpu/bf16/b=2/t=17/data=normal/layout=strided/state=first_call/seed=7");
}

TEST(Case, RoundTrips) {
  test::expect_property(
      [] {
        const Case drawn = any_case();
        const Case parsed = parse_case(drawn.to_string());
        RC_ASSERT(parsed == drawn);
        RC_ASSERT(parsed.to_string() == drawn.to_string());
      },
      1000);
}

TEST(Case, LeftOutFieldsHaveTheirDefaults) {
  const Case parsed = parse_case("dynamic_conv/cpu/f32/b=1");
  EXPECT_EQ(parsed.data, Regime::kNormal);
  EXPECT_EQ(parsed.layout, Layout::kDense);
  EXPECT_EQ(parsed.state, State{});
  EXPECT_EQ(parsed.seed, 0u);
  EXPECT_EQ(parsed, parse_case("dynamic_conv/cpu/f32/b=1/data=normal/layout=dense/state=first_call/seed=0"));
}

TEST(Case, FieldsMayStandInAnyOrder) {
  EXPECT_EQ(parse_case("o/p/f32/seed=3/data=tiny/b=1"), parse_case("o/p/f32/b=1/data=tiny/seed=3"));
}

TEST(Case, ErrorsNameTheFieldAndItsValue) {
  const std::pair<const char*, std::vector<const char*>> wrong[] = {
      {"", {"''", "op/path/dtype"}},
      {"dynamic_conv", {"'dynamic_conv'", "op/path/dtype"}},
      {"dynamic_conv/cpu", {"'dynamic_conv/cpu'", "op/path/dtype"}},
      {"/cpu/f32", {"'/cpu/f32'"}},
      {"o//f32", {"'o//f32'"}},
      {"o/p/f8/b=1", {"dtype", "f8", "bf16"}},
      {"o/p/f32/b", {"'b'", "key=value"}},
      {"o/p/f32/b=1/", {"''", "key=value"}},
      {"o/p/f32/=1", {"'=1'", "key=value"}},
      {"o/p/f32/b=", {"b="}},
      {"o/p/f32/b=1x", {"b=1x"}},
      {"o/p/f32/b= 1", {"b= 1"}},
      {"o/p/f32/b=1.5", {"b=1.5"}},
      {"o/p/f32/b=9223372036854775808", {"b=9223372036854775808", "64-bit"}},
      {"o/p/f32/b=1/b=1", {"'b'", "twice"}},
      {"o/p/f32/b\x1b[2J=1", {"'o/p/f32/b\\x1b[2J=1'", "cannot be shown"}},
      {"o/p/f32/state=forced:\xff:\n", {"forced:\\xff:\\x0a'", "cannot be shown"}},
      {"o/p/f32/seed=1/seed=2", {"'seed'", "twice"}},
      {"o/p/f32/data=gauss", {"data=gauss", "heavy_tail"}},
      {"o/p/f32/data=gauss+zeros", {"data=gauss", "heavy_tail"}},
      {"o/p/f32/data=zeros", {"data=zeros", "heavy_tail"}},
      {"o/p/f32/data=normal+tiny", {"data=tiny", "subnormal_weights"}},
      {"o/p/f32/data=normal+", {"data=", "subnormal_weights"}},
      {"o/p/f32/data=normal+nans+nans", {"data=normal+nans+nans", "'nans' stands twice"}},
      {"o/p/f32/layout=sparse", {"layout=sparse", "transposed"}},
      {"o/p/f32/state=tepid", {"state=tepid", "second_call"}},
      {"o/p/f32/seed=-1", {"seed=-1"}},
      {"o/p/f32/seed=18446744073709551616", {"seed=18446744073709551616"}},
  };
  for (const auto& [line, parts] : wrong) {
    const std::string message = error_of([&, &text = line] { parse_case(text); });
    for (const char* part : parts) EXPECT_THAT(message, HasSubstr(part)) << line;
  }
}

TEST(Case, IngredientsHaveOneOrder) {
  const Case parsed = parse_case("o/p/f32/data=tiny+nans+zeros");
  EXPECT_EQ(parsed.data.to_string(), "tiny+zeros+nans");
  EXPECT_EQ(parsed, parse_case("o/p/f32/data=tiny+zeros+nans"));
  EXPECT_NE(parsed, parse_case("o/p/f32/data=tiny+zeros"));
}

// For any text, the parser returns a case or says what is wrong.
TEST(Case, AnyTextIsParsedOrRefused) {
  test::expect_property(
      [] {
        std::string line = any_case().to_string();
        const auto at = *rc::gen::inRange<size_t>(0, line.size());
        line.replace(at, *rc::gen::inRange<size_t>(0, 4),
                     *rc::gen::container<std::string>(rc::gen::elementOf(std::string("/=-9x"))));
        try {
          const Case parsed = parse_case(line);
          RC_ASSERT(parse_case(parsed.to_string()) == parsed);
        } catch (const Error& error) {
          RC_ASSERT(error.kind() == Error::Kind::kUsage);
        }
      },
      1000);
}

TEST(Case, NamesAreUnique) {
  std::vector<std::string_view> names;
  for (Regime regime : all_regimes()) names.push_back(name_of(regime));
  for (Ingredient ingredient : all_ingredients()) names.push_back(name_of(ingredient));
  for (Layout layout : all_layouts()) names.push_back(name_of(layout));
  for (StepKind step : all_steps()) names.push_back(name_of(step));
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(Case, IsSmallerWithFewerElementsOrAShorterLine) {
  const auto smaller = [](std::string_view a, std::string_view b) {
    return is_smaller(parse_case(a), parse_case(b));
  };
  EXPECT_TRUE(smaller("op/p/f32/n=5/m=1", "op/p/f32/n=3/m=2"));
  EXPECT_FALSE(smaller("op/p/f32/n=3/m=2", "op/p/f32/n=5/m=1"));
  EXPECT_TRUE(smaller("op/p/f32/n=1/m=2", "op/p/f32/n=2/m=1/layout=strided"));
  EXPECT_FALSE(smaller("op/p/f32/n=1/m=2", "op/p/f32/n=2/m=1"));
}

TEST(State, PrintsAndParses) {
  const std::string line = "second_call+forced:apply:rows=4,threads=256+after:f16,n=2,l=40+graph_replay";
  const State state = parse_state(line);
  ASSERT_EQ(state.steps.size(), 4u);
  EXPECT_EQ(state.steps[1].tunable, "apply");
  EXPECT_EQ(state.steps[1].config, "rows=4,threads=256");
  EXPECT_EQ(state.steps[2].dtype, DType::kF16);
  EXPECT_EQ(state.steps[2].dims, (Dims{{"n", 2}, {"l", 40}}));
  EXPECT_EQ(state.to_string(), line);
  EXPECT_EQ(parse_state("warm+weight_updated:norm.weight").steps[1].input, "norm.weight");
  EXPECT_EQ(parse_state("first_call"), State{});
  EXPECT_EQ(State{}.to_string(), "first_call");
}

TEST(State, NamesWhatIsWrong) {
  const auto error = [](std::string_view text) { return error_of([&] { parse_state(text); }); };
  EXPECT_THAT(error("third_call"),
              AllOf(HasSubstr("third_call"), HasSubstr("first_call"), HasSubstr("second_call")));
  EXPECT_THAT(error("warm+first_call"), HasSubstr("first_call"));
  EXPECT_THAT(error(""), HasSubstr("state="));
  EXPECT_THAT(error("warm:now"), AllOf(HasSubstr("warm:now"), HasSubstr("no argument")));
  EXPECT_THAT(error("forced"), HasSubstr("takes an argument"));
  EXPECT_THAT(error("weight_updated"), HasSubstr("takes an argument"));
  EXPECT_THAT(error("weight_updated:"), HasSubstr("takes an argument"));
  EXPECT_THAT(error("forced:"), HasSubstr("takes an argument"));
  EXPECT_THAT(error("after:"), HasSubstr("takes an argument"));
  EXPECT_THAT(error("forced:apply"), HasSubstr("forced:<tunable>:<config>"));
  EXPECT_THAT(error("after:f12"), HasSubstr("f12"));
  EXPECT_THAT(error("after:f32,n"), HasSubstr("'n'"));
  EXPECT_THAT(error("after:f32,n=many"), HasSubstr("n=many"));
  EXPECT_THAT(error("after:f32,n=4,l=1,n=5"), HasSubstr("'n' stands twice"));
}

TEST(Dims, AreCheckedAgainstTheOp) {
  const Op& op = registry().op("dynamic_conv");
  require_dims(op, {{"b", 0}, {"t", 1}, {"d", 1}, {"w", 8}});
  EXPECT_THAT(error_of([&] { require_dims(op, {{"b", 1}, {"t", 1}, {"d", 1}}); }), HasSubstr("'w'"));
  EXPECT_THAT(error_of([&] {
                require_dims(op, {{"b", 1}, {"t", 1}, {"d", 1}, {"w", 9}});
              }),
              AllOf(HasSubstr("w=9"), HasSubstr("1..8")));
  EXPECT_THAT(error_of([&] {
                require_dims(op, {{"b", -1}, {"t", 1}, {"d", 1}, {"w", 1}});
              }),
              HasSubstr("b=-1"));
  EXPECT_THAT(error_of([&] {
                require_dims(op, {{"b", 1}, {"t", 1}, {"d", 1}, {"w", 1}, {"h", 1}});
              }),
              HasSubstr("'h'"));
}

}  // namespace
}  // namespace assay
