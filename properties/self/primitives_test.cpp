// SPDX-License-Identifier: Apache-2.0
// The primitives of an Arithmetic against numbers of 1600 bits:
//   kBall   what the function is at points of its arguments lies in the ball, without any rounding
//   kExact  the value is off by no more than what radii have for it: 2^-20 of the ball of certain
//           arguments, or half of it where paths add up in f64 as the oracle does
#include <functional>
#include <string>
#include <vector>

#include "oracles/core/formula.h"
#include "oracles/core/self/real.h"
#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::Real;
using Points = std::vector<Real>;

const Arithmetic kBall(Arithmetic::Mode::kBall), kExact(Arithmetic::Mode::kExact);
constexpr double kEpsilon = 1e-3;

Real mean_of(const Points& x) {
  Real sum;
  for (const Real& value : x) sum += value;
  return sum / Real(static_cast<double>(x.size()));
}

Real variance_of(const Points& x) {
  const Real mean = mean_of(x);
  Points squares;
  for (const Real& value : x) squares.push_back((value - mean) * (value - mean));
  return mean_of(squares);
}

Real rsqrt_of(const Real& variance) {
  return Real(1) / sqrt(variance + Real(kEpsilon));
}

Real dot_of(const Points& x, const Points& y) {
  Real sum;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Real normalised(const Points& x) {
  return (x[0] - mean_of(x)) * rsqrt_of(variance_of(x));
}

struct Primitive {
  std::string name;
  std::function<Ball(const Arithmetic& a, const Balls& x, const Balls& y)> evaluate;
  std::function<Real(const Points& x, const Points& y)> truth;
  double own = kMargin - 1;  // the share of a radius for the oracle's own arithmetic
};

void PrintTo(const Primitive& primitive, std::ostream* stream) {
  *stream << primitive.name;
}

std::vector<Primitive> primitives() {
  const auto of_both = [](auto of) {
    return [of](const Arithmetic& a, const Balls& x, const Balls& y) { return of(a, x[0], y[0]); };
  };
  const Real one(1), two(2);
  return {
      {"add", of_both([](auto& a, Ball x, Ball y) { return a.add(x, y); }),
       [](auto& x, auto& y) { return x[0] + y[0]; }},
      {"multiply", of_both([](auto& a, Ball x, Ball y) { return a.multiply(x, y); }),
       [](auto& x, auto& y) { return x[0] * y[0]; }},
      {"multiply add", of_both([](auto& a, Ball x, Ball y) { return a.multiply_add(x, y, {0.25}); }),
       [](auto& x, auto& y) { return x[0] * y[0] + Real(0.25); }},
      {"mean square", [](auto& a, auto& x, auto&) { return a.mean_square(x.row(), {}); },
       [](auto& x, auto&) { return dot_of(x, x) / Real(static_cast<double>(x.size())); }},
      {"sigmoid", of_both([](auto& a, Ball x, Ball) { return a.sigmoid(x); }),
       [=](auto& x, auto&) { return (one + tanh(x[0] / two)) / two; }},
      {"gelu", of_both([](auto& a, Ball x, Ball) { return a.gelu(x); }),
       [=](auto& x, auto&) {
         const Real inner = x[0] + Real(44715) / Real(1000000) * x[0] * x[0] * x[0];
         return x[0] / two * (one + tanh(sqrt(two / Real::pi()) * inner));
       }},
      {"rsqrt", of_both([](auto& a, Ball x, Ball) {
         return a.rsqrt({std::abs(x.mid), 0}, kEpsilon);
       }),
       [](auto& x, auto&) { return rsqrt_of(x[0]); }},
      {"constant", of_both([](auto& a, Ball x, Ball) { return a.constant(x.mid); }),
       [](auto& x, auto&) { return x[0]; }},
      {"deviation", of_both([](auto& a, Ball x, Ball y) { return a.deviation(x, y); }),
       [](auto& x, auto& y) { return x[0] - y[0]; }},
      {"dot", [](auto& a, auto& x, auto& y) { return a.dot(x.row(), y.row(), {}); }, dot_of},
      {"dot of neighbours",
       [](auto& a, auto& x, auto& y) {
         return a.dot(x.row(), y.row(), {.order = Sum::Order::kContiguous, .truncates = true});
       },
       dot_of},
      {"dot in groups", [](auto& a, auto& x, auto& y) { return a.dot(x.row(), y.row(), {.group = 8}); },
       dot_of},
      {"mean of products", [](auto& a, auto& x, auto& y) { return a.mean_of_products(x.row(), y.row()); },
       [](auto& x, auto& y) { return dot_of(x, y) / Real(static_cast<double>(x.size())); }, 0.5},
      {"total", [](auto& a, auto& x, auto&) { return a.total(x.row()); },
       [](auto& x, auto&) { return mean_of(x) * Real(static_cast<double>(x.size())); }},
      {"mean", [](auto& a, auto& x, auto&) { return a.moments(x.row(), kEpsilon).mean; },
       [](auto& x, auto&) { return mean_of(x); }, 0.5},
      {"variance", [](auto& a, auto& x, auto&) { return a.moments(x.row(), kEpsilon).variance; },
       [](auto& x, auto&) { return variance_of(x); }, 0.5},
      {"rstd", [](auto& a, auto& x, auto&) { return a.moments(x.row(), kEpsilon).rstd; },
       [](auto& x, auto&) { return rsqrt_of(variance_of(x)); }},
      {"normalise", [](auto& a, auto& x, auto&) { return a.normalise(x[0], a.moments(x.row(), kEpsilon)); },
       [](auto& x, auto&) { return normalised(x); }, 0.5},
      {"layer norm",
       [](auto& a, auto& x, auto& y) {
         Balls to(x.size());
         const Balls weight(std::vector<double>(x.size(), y[0].mid)),
             bias(std::vector<double>(x.size(), 0.25));
         a.layer_norm(x.row(), weight.row(), bias.row(), kEpsilon, false, to);
         return to[0];
       },
       [](auto& x, auto& y) { return normalised(x) * y[0] + Real(0.25); }},
  };
}

// Numbers of f32 about `mean` that are `size` apart.
std::vector<double> numbers(uint64_t seed, size_t count, double mean, double size) {
  const CounterRandom random(seed, 0);
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(size * (mean + random.normal(i))));
  return values;
}

Balls with_radii(const std::vector<double>& mids, double relative) {
  Balls balls;
  for (double mid : mids) balls.push_back({mid, relative * std::abs(mid)});
  return balls;
}

// Of each ball, a point: the lower end, the middle, the upper end, or one at random.
Points points_of(const Balls& balls, uint64_t which) {
  const CounterRandom random(which, 1);
  Points points;
  for (size_t i = 0; i < balls.size(); ++i) {
    const double at = which < 3 ? static_cast<double>(which) - 1 : 2 * random.uniform(i) - 1;
    points.emplace_back(Real(balls[i].mid) + Real(at) * Real(balls[i].radius));
  }
  return points;
}

double distance(const Real& truth, double value) {
  return std::abs(mpfr_get_d((truth - Real(value)).get(), MPFR_RNDN));
}

class Primitives : public testing::TestWithParam<Primitive> {};

TEST_P(Primitives, HoldWhatTheFunctionIs) {
  const Primitive& primitive = GetParam();
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const size_t count = 2 + seed % 39;
    const double mean = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 1 : 1e4, size = seed % 5 == 0 ? 1e-4 : 1;
    std::vector<double> x = numbers(2 * seed, count, mean, size), y = numbers(2 * seed + 1, count, 0, 1);
    if (primitive.name == "rsqrt") std::ranges::for_each(x, [](double& value) { value = std::abs(value); });
    const Balls certain_x(x), certain_y(y);
    const Real truth = primitive.truth(points_of(certain_x, 1), points_of(certain_y, 1));
    const Ball certain = primitive.evaluate(kBall, certain_x, certain_y);
    const Ball exact = primitive.evaluate(kExact, certain_x, certain_y);
    ASSERT_EQ(exact.radius, 0);
    ASSERT_LE(distance(truth, exact.mid), primitive.own * certain.radius + 0x1p-52 * std::abs(exact.mid));
    for (double relative : {0.0, 1e-7, 1e-2}) {
      const bool is_certain_argument = primitive.name == "rsqrt" || primitive.name == "constant";
      const Balls in = with_radii(x, is_certain_argument ? 0 : relative);
      const Balls by = with_radii(y, primitive.name == "layer norm" ? 0 : relative);
      const Ball ball = primitive.evaluate(kBall, in, by);
      for (uint64_t which = 0; which < 8 && !ball.is_open(); ++which) {
        const Real point = primitive.truth(points_of(in, which), points_of(by, which));
        ASSERT_LE(distance(point, ball.mid), ball.radius + 0x1p-52 * std::abs(ball.mid))
            << count << " numbers, seed " << seed << ", radii of " << relative << ", point " << which;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Primitives, testing::ValuesIn(primitives()), [](const auto& info) {
  std::string name = info.param.name;
  std::ranges::replace(name, ' ', '_');
  return name;
});

// A path that has added -0 to +0 has the other sign.
TEST(Dot, KnowsNoSignOfAZeroWhoseFactorsHaveNone) {
  const Arithmetic arithmetic(Arithmetic::Mode::kBall);
  const Ball zero = arithmetic.multiply({-0.0}, {1});
  EXPECT_FALSE(zero.is_signed);
  Balls unsure;
  unsure.push_back(zero);
  EXPECT_FALSE(arithmetic.dot(unsure.row(), Balls(std::vector{-1.0}).row(), {}).is_signed);
  EXPECT_TRUE(arithmetic.dot(Balls(std::vector{-0.0}).row(), Balls(std::vector{-1.0}).row(), {}).is_signed);
}

TEST(Each, RoundsToTheDTypeOfTheOutput) {
  const Question question{.dims = {}, .recipe = {.storage = DType::kBF16}, .inputs = {}};
  constexpr double kValue = 1 + 0x1p-10;
  const auto evaluated = [&](std::optional<DType> own) {
    std::vector<Ball> values(2);
    const auto element = [](const Extents&, Products&) { return Ball{kValue}; };
    const auto row = [](const Extents&) { return [](size_t) { return Ball{kValue}; }; };
    each(question, kBall, {1}, element, own)(std::vector<int64_t>{0}, std::span(values).first(1));
    each_row(question, kBall, {1, 1}, row, own)(std::vector<int64_t>{0}, std::span(values).last(1));
    EXPECT_EQ(values[0].mid, values[1].mid);
    return values[0].mid;
  };
  EXPECT_EQ(evaluated(std::nullopt), 1);
  EXPECT_EQ(evaluated(DType::kF32), kValue);
}

}  // namespace
}  // namespace assay
