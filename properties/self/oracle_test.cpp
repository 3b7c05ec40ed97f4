// SPDX-License-Identifier: Apache-2.0
// Every oracle against its op's formula in exact arithmetic (oracles/<op>/self/audit.cpp).
#include "oracles/core/oracle.h"

#include <cmath>
#include <limits>
#include <optional>

#include "kernels/cheri/cheri.h"
#include "kernels/trimul/trimul.h"
#include "oracles/core/self/audit.h"
#include "properties/core/certificate.h"
#include "properties/core/compare.h"
#include "properties/core/generate.h"
#include "properties/core/problem.h"
#include "properties/core/recipes.h"
#include "properties/self/support.h"

namespace assay::test {
namespace {

// Whether tensors between the steps have 16 bits: z of cheri_block, hidden of trimul.
bool has_short_values(const Recipe& recipe) {
  return std::ranges::any_of(recipe.roundings, [](const Rounding& rounding) {
    const bool is_short = rounding.format == Format::kF16 || rounding.format == Format::kBF16;
    return is_short && (rounding.site.name == "z" || rounding.site.name == "hidden");
  });
}

// The balls of the elements, around their exact values.
std::vector<Expected> expected_of(const Oracle& oracle, const Question& question, int output,
                                  std::span<const int64_t> elements, bool may_overflow, int fault = 0) {
  std::vector<Expected> expected(elements.size());
  const Arithmetic exactly(Arithmetic::Mode::kExact), in_balls(Arithmetic::Mode::kBall);
  std::vector<Ball> exact(elements.size()), balls(elements.size());
  Evaluate evaluate = oracle.formula(question, output, exactly, fault);
  if (!evaluate) evaluate = oracle.formula(question, output, exactly, 0);
  evaluate(elements, exact);
  oracle.formula(question, output, in_balls, 0)(elements, balls);
  for (size_t i = 0; i < elements.size(); ++i) {
    const double moved = std::abs(balls[i].mid - exact[i].mid);
    const double reach = std::isfinite(moved) && !balls[i].is_open() ? balls[i].radius + moved : 0;
    const bool overflows = may_overflow && std::isfinite(exact[i].mid) && !std::isfinite(balls[i].mid);
    expected[i] = {.value = overflows ? balls[i].mid : exact[i].mid,
                   .bound = std::isfinite(exact[i].mid) ? reach + 0x1p-20 * std::abs(exact[i].mid) : 0,
                   .exact = exact[i].mid,
                   .is_open = balls[i].is_open()};
  }
  return expected;
}

// What the oracle gets wrong in one case, if anything. Checks every `step`-th element of each
// output.
std::optional<std::string> find_error(const Oracle& oracle, const Audit& audit, const Case& which,
                                      int64_t step = 1, int fault = 0) {
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path(which.path), which, cpu());
  problem.draw_inputs(which.seed);
  const TensorBytes bytes = problem.inputs();
  Question question = problem.question();
  std::vector<Dense> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.emplace_back(bytes[i], question.inputs[i].dtype, question.inputs[i].shape);
  }
  for (size_t output = 0; output < op.outputs.size(); ++output) {
    const Extents shape = shape_of(op.outputs[output], which.dims);
    const DType dtype = op.outputs[output].dtype.value_or(which.dtype);
    std::vector<int64_t> elements;
    for (int64_t i = 0; i < element_count(shape); i += step) elements.push_back(i);
    std::vector<ExactSum> exact_values(elements.size());
    for (size_t i = 0; i < elements.size(); ++i) {
      audit.outputs[output](inputs, which.dims, index_of(elements[i], shape), exact_values[i]);
    }
    for (const Recipe& recipe : recipes_of(op, which.dims, which.dtype)) {
      question.recipe = recipe;
      // A tensor between the steps may overflow in its dtype, and f32 where a whole input is near
      // the limit.
      const bool overflows = has_short_values(recipe) || which.data.has(Ingredient::kNearLimit);
      const std::vector<Expected> expected =
          expected_of(oracle, question, static_cast<int>(output), elements, overflows, fault);
      for (size_t i = 0; i < elements.size(); ++i) {
        ExactSum& exact = exact_values[i];
        const auto error = [&](std::string_view what) {
          return fmt::format("{}: {}[{}] of {}, {}, is {}; the oracle says {} +- {}", what,
                             op.outputs[output].name, elements[i], which.to_string(), recipe.to_string(),
                             exact.nearest(), expected[i].value, expected[i].bound);
        };
        if (expected[i].is_open) {
          if (may_be_open(which.data) || which.data.regime() == Regime::kHuge) continue;
          return error("the oracle knows nothing");
        }
        if (!std::isfinite(exact.nearest())) {
          const bool agrees = std::isnan(exact.nearest()) ? std::isnan(expected[i].value)
                                                          : expected[i].value == exact.nearest();
          if (!agrees) return error("another class");
          continue;
        }
        if (!std::isfinite(expected[i].value) && overflows) continue;
        // The oracle's own error must be negligible beside what it allows a path, or be that of
        // exact arithmetic: 1600 bits of numbers below 2^900.
        constexpr double kOfExact = 0x1p-600;
        if (!(exact.distance(expected[i].value) <= 1e-6 * expected[i].bound + kOfExact))
          return error("too far");
        if (!std::isfinite(expected[i].bound)) return error("no bound");
        const double rounded = visit(dtype, [&]<class T>(std::type_identity<T>) {
          return to_double(from_double<T>(exact.nearest()));
        });
        if (!is_right(expected[i], rounded, dtype)) return error("the exact value, rounded once, is refused");
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> find_error(const Oracle& oracle, const Audit& audit, const Data& data,
                                      int fault = 0) {
  const Op& op = registry().op(audit.op);
  for (DType dtype : op.paths.front().dtypes) {
    for (Layout layout : {Layout::kDense, Layout::kStrided, Layout::kTransposed, Layout::kBroadcast}) {
      for (int64_t size : {1, 3, 1000}) {
        Case which{.op = std::string(op.name),
                   .path = std::string(op.paths.front().name),
                   .dtype = dtype,
                   .dims = small_dims(op, size),
                   .state = {}};
        if (!is_legal(layout, op, which.dims)) continue;
        which.data = data;
        which.layout = layout;
        which.seed = static_cast<uint64_t>(size);
        if (auto error = find_error(oracle, audit, which, 1, fault)) return error;
      }
    }
  }
  return std::nullopt;
}

TEST(OracleAudit, EveryOpHasOne) {
  const std::vector<Audit> audits = all_audits();
  for (const Op* op : registry().ops()) {
    const auto found = std::ranges::find(audits, op->name, &Audit::op);
    ASSERT_NE(found, audits.end()) << "no oracles/<op>/self/audit.cpp audits the oracle of " << op->name;
    EXPECT_EQ(found->outputs.size(), op->outputs.size()) << op->name;
  }
}

// Every regime, every ingredient, and ingredients that meet.
std::vector<Data> audited_data() {
  std::vector<Data> all(all_regimes().begin(), all_regimes().end());
  for (Ingredient ingredient : all_ingredients()) all.push_back(Data().mix_in(ingredient));
  for (std::string_view met :
       {"normal+zeros+infinities", "normal+mask+infinities", "normal+large_input+zeros",
        "normal+scales+zeros+ones", "normal+infinities+nans", "integers+subnormal_weights+infinities",
        "huge+large_input+mask", "normal+large_index+tiny_products", "normal+subnormal_weights+near_limit"})
    all.push_back(parse_data(met));
  return all;
}

class OracleAudit : public testing::TestWithParam<Data> {};
INSTANTIATE_TEST_SUITE_P(Data, OracleAudit, testing::ValuesIn(audited_data()), [](const auto& test) {
  std::string name = test.param.to_string();
  std::ranges::replace(name, '+', '_');
  return name;
});

TEST_P(OracleAudit, AgreesWithExactArithmetic) {
  NOT_SANITIZED("OracleAudit.FindsEveryFault and BallsOf run the same code on other numbers");
  for (const Audit& audit : all_audits()) {
    const auto error = find_error(registry().oracle(audit.op), audit, GetParam());
    EXPECT_FALSE(error) << *error;
  }
}

// Sums over some thousand elements of any mean and magnitude.
TEST(OracleAudit, AgreesOnLongSums) {
  for (const Audit& audit : all_audits()) {
    const Op& op = registry().op(audit.op);
    if (!audit.op.starts_with("cheri")) continue;
    for (Regime regime : {Regime::kNormal, Regime::kOffset, Regime::kHeavyTail, Regime::kHuge}) {
      for (uint64_t seed = 0; seed < 3; ++seed) {
        Case which{.op = std::string(op.name),
                   .path = std::string(op.paths.front().name),
                   .dtype = DType::kF32,
                   .dims = {{"n", 2}, {"l", 130}, {"c", 17}, {"dilation", 40}},
                   .state = {}};
        if (audit.op == "cheri_block") which.dims.set("hidden", 20);
        which.data = regime;
        which.seed = seed;
        const auto error = find_error(registry().oracle(audit.op), audit, which, 997);
        EXPECT_FALSE(error) << *error;
      }
    }
  }
}

// Each fault is wrong somewhere.
TEST(OracleAudit, FindsEveryFault) {
  for (const Audit& audit : all_audits()) {
    const Oracle& right = registry().oracle(audit.op);
    for (size_t i = 0; i < right.faults.size(); ++i) {
      const bool is_found = std::ranges::any_of(all_regimes(), [&](Regime regime) {
        return find_error(right, audit, regime, static_cast<int>(i) + 1).has_value();
      });
      EXPECT_TRUE(is_found) << audit.op << ": " << right.faults[i];
    }
  }
}

// The balls of the first output.
std::vector<Ball> balls_of(const Oracle& oracle, const Question& question, int64_t count) {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < count; ++i) elements.push_back(i);
  std::vector<Ball> balls(elements.size());
  const Arithmetic in_balls(Arithmetic::Mode::kBall);
  oracle.formula(question, 0, in_balls, 0)(elements, balls);
  return balls;
}

std::vector<double> computed(const Oracle& oracle, const Question& question, int64_t count) {
  std::vector<double> mids;
  for (const Ball& ball : balls_of(oracle, question, count)) mids.push_back(ball.mid);
  return mids;
}

TEST(Formulas, RoundAtEverySite) {
  const std::vector<std::pair<std::string, std::vector<Site>>> ops{
      {"trimul/cpu/f32/b=1/n=4/c=8/h=8/mask=1",
       {trimul::site::kXn, trimul::site::kWeights, trimul::site::kSides, trimul::site::kHidden,
        trimul::site::kGate, trimul::site::kZ}},
      {"cheri_block/cpu/f32/n=2/l=6/c=8/dilation=1/hidden=8",
       {cheri::site::kY, cheri::site::kZ, cheri::site::kGelu, cheri::site::kUpdate, cheri::site::kW1,
        cheri::site::kW2}}};
  for (const auto& [line, sites] : ops) {
    const Case which = parse_case(line);
    const Op& op = registry().op(which.op);
    const Oracle& oracle = registry().oracle(op.name);
    Problem problem(op, op.path("cpu"), which, cpu());
    problem.draw_inputs(which.seed);
    const int64_t count = element_count(shape_of(op.outputs.front(), which.dims));
    Question question = problem.question();
    const std::vector<double> plain = computed(oracle, question, count);
    for (const Site& site : sites) {
      question.recipe.roundings = {{.site = site, .format = Format::kBF16}};
      EXPECT_NE(computed(oracle, question, count), plain) << op.name << ": " << site.name;
    }
  }
}

// The weights of a norm are finite, its results exceed f32.
TEST(Formulas, ScaledFactorsOfTrimulMayHoldWhatF32DoesNot) {
  const Case which = parse_case("trimul/cpu/f32/b=1/n=2/c=8/h=8/mask=1");
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path("cpu"), which, cpu());
  problem.draw_inputs(which.seed);
  const std::vector<float> largest(8, std::numeric_limits<float>::max());
  for (Input weight : {trimul::kNormWeight, trimul::kToOutNormWeight}) {
    Question question = problem.question();
    question.inputs[weight].data = largest.data();
    for (Format factors : {Format::kF16, Format::kF16x3}) {
      question.recipe = trimul::recipe_of(factors);
      for (const Ball& ball : balls_of(registry().oracle(op.name), question, 2 * 2 * 8))
        EXPECT_TRUE(ball.is_open()) << op.inputs[weight].name;
    }
    question.recipe = trimul::recipe_of(Format::kBF16);
    for (const Ball& ball : balls_of(registry().oracle(op.name), question, 2 * 2 * 8))
      EXPECT_FALSE(ball.is_finite()) << op.inputs[weight].name;
  }
}

// What the comparison of three elements would accept.
struct Asked {
  std::vector<Expected> expected;
  Oracle oracle{.op = "op", .formula = {}};
  std::vector<double> previous = {};
  DType dtype = DType::kF32;
  double noise = 0;

  std::optional<std::string> accepted() const {
    const Question question{.dims = {}, .recipe = {}, .inputs = {}};
    const std::vector<int64_t> elements{0, 1, 2};
    return accepted_fault({.oracle = oracle,
                           .question = question,
                           .output = 0,
                           .shape = {3},
                           .dtype = dtype,
                           .elements = elements,
                           .expected = expected,
                           .noise = noise,
                           .previous = previous});
  }
};

TEST(Certificate, TriesThePreviousCall) {
  Asked asked;
  for (double value : {1, 2, 3}) asked.expected.push_back({.value = value, .bound = 0.5, .exact = value});
  const auto accepted = [&](const std::vector<double>& previous) {
    asked.previous = previous;
    return asked.accepted();
  };
  EXPECT_EQ(accepted({}), std::nullopt);
  EXPECT_EQ(accepted({1.25, 2.25, 4}), std::nullopt);
  EXPECT_EQ(accepted({1.25, 2.25, 3.25}), "the previous call's output");
}

// The path rounds 1.001 to 1. A bound below what that loses accepts a fault that does less.
TEST(Certificate, SeesWhatAFaultDoesBesideRounding) {
  const Rounding rounding{.site = {1, "y"}, .format = Format::kBF16};
  constexpr double kBound = 0x1p-12, kFault = 0x1p-13;
  Asked asked{.expected = std::vector<Expected>(3, {.value = 1, .bound = kBound, .exact = 1.001})};
  asked.oracle.faults = {"a fault"};
  asked.oracle.formula = [&](const Question&, int, const Arithmetic& a, int fault) -> Evaluate {
    return [&, fault](std::span<const int64_t>, std::span<Ball> values) {
      for (Ball& value : values) {
        value = a.round(rounding, {1.001});
        value.mid += fault * kFault;
      }
    };
  };
  EXPECT_EQ(asked.accepted(), "a fault");
}

// Zeros are wrong answers that a bound of 2 accepts.
TEST(Certificate, AsksForWhatShows) {
  const auto accepted = [](double value, double bound, bool is_open = false, DType dtype = DType::kF32,
                           double noise = 0) {
    const Expected one{.value = value, .bound = bound, .exact = value, .is_open = is_open};
    return Asked{.expected = std::vector<Expected>(3, one), .dtype = dtype, .noise = noise}.accepted();
  };
  EXPECT_EQ(accepted(1, 2), "zeros");
  EXPECT_EQ(accepted(1, 0.5), std::nullopt);
  EXPECT_EQ(accepted(1, 2, true), std::nullopt);
  EXPECT_EQ(accepted(1, 2, false, DType::kF32, 1.1), std::nullopt);  // looks like rounding
  // One ulp does not show.
  EXPECT_EQ(accepted(0x1p-149, 1), std::nullopt);
  EXPECT_EQ(accepted(0x1p-147, 1), "zeros");
  EXPECT_EQ(accepted(0x1p-147, 1, false, DType::kBF16), std::nullopt);
}

}  // namespace
}  // namespace assay::test
