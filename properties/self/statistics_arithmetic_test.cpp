// SPDX-License-Identifier: Apache-2.0
// Balls of what an Arithmetic makes of an example (oracles/core/moments.cpp). Each holds the worst
// right path that we know, and half of it does not.
#include <cmath>
#include <functional>

#include "oracles/core/arithmetic.h"
#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay {
namespace {

const Arithmetic kInBalls(Arithmetic::Mode::kBall);

// How far right paths came from the middle of their balls, in units of the radius.
class Reach {
 public:
  void hold(Ball ball, double got) {
    ASSERT_LE(std::abs(got - ball.mid), ball.radius) << got << " in " << ball.mid << " +- " << ball.radius;
    if (ball.radius > 0) most_ = std::max(most_, std::abs(got - ball.mid) / ball.radius);
  }
  ~Reach() { EXPECT_GT(most_, 0.5) << "half the radius would do"; }

 private:
  double most_ = 0;
};

// Values around `mean`, each with this radius.
Balls values_around(double mean, double radius, size_t count = 50) {
  const CounterRandom random(7, 0);
  Balls values;
  for (size_t i = 0; i < count; ++i) values.push_back({static_cast<float>(mean + random.normal(i)), radius});
  return values;
}

// The values, moved by `move(value)` in [-1, 1] radii.
Balls moved(const Balls& values, const std::function<double(double)>& move) {
  Balls result;
  for (size_t i = 0; i < values.size(); ++i)
    result.push_back({values[i].mid + move(values[i].mid) * values[i].radius, 0});
  return result;
}

double sum_of(const Balls& values) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += values[i].mid;
  return sum;
}

TEST(StatisticsArithmetic, SumsInGroups) {
  // 1 takes nothing of what is half its last place.
  const Balls ones(std::vector<double>(32, 1.0));
  std::vector<double> terms(32, 0x1p-24);
  terms[0] = 1;
  Reach reach;
  reach.hold(kInBalls.dot(ones.row(), Balls(terms).row(), {.group = 32}), 1);
  // A longer sum has the errors of its groups, not of all its additions.
  std::vector<double> many(3200, 1.0 / 3), other(3200, 1.1);
  EXPECT_LT(kInBalls.dot(Balls(many).row(), Balls(other).row(), {.group = 32}).radius,
            kInBalls.dot(Balls(many).row(), Balls(other).row(), {}).radius / 90);
}

TEST(StatisticsArithmetic, Constants) {
  Reach reach;
  for (int i = 1; i < 100; ++i) reach.hold(kInBalls.constant(i / 100.0), static_cast<float>(i / 100.0));
}

TEST(StatisticsArithmetic, Means) {
  Reach inherited;
  const Balls values = values_around(3, 1e-6);
  inherited.hold(kInBalls.moments(values.row(), 0).mean,
                 sum_of(moved(values, [](double) { return 1; })) / 50);
  // Two additions and a division in f64, against long double.
  const CounterRandom random(1, 0);
  for (uint64_t i = 0; i < 3000; i += 3) {
    const double a = 0.5 + random.uniform(i), b = 1 + random.uniform(i + 1), c = 2 + random.uniform(i + 2);
    const Balls row(std::vector<double>{a, b, c});
    const double error = static_cast<double>((static_cast<long double>(a) + b + c) / 3 - (a + b + c) / 3);
    const Ball ball = kInBalls.moments(row.row(), 0).mean;
    ASSERT_LE(std::abs(error), ball.radius);
  }
}

TEST(StatisticsArithmetic, MeansOfProducts) {
  Reach inherited, rounded;
  const Balls a = values_around(0, 0), b = values_around(2, 1e-6);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst += a[i].mid * b[i].mid + std::abs(a[i].mid) * b[i].radius;
  inherited.hold(kInBalls.mean_of_products(a.row(), b.row()), worst / 50);
  for (int i = 1; i < 100; ++i) {
    const double x = i / 100.0;
    rounded.hold(kInBalls.mean_of_products(Balls(std::vector{x}).row(), Balls(std::vector{1.0}).row()),
                 static_cast<float>(x));
  }
}

TEST(StatisticsArithmetic, Totals) {
  Reach inherited, rounded;
  const Balls values = values_around(2, 1e-6);
  inherited.hold(kInBalls.total(values.row()), sum_of(moved(values, [](double) { return 1; })));
  for (int i = 1; i < 100; ++i)
    rounded.hold(kInBalls.total(Balls(std::vector{i / 100.0}).row()), static_cast<float>(i / 100.0));
}

TEST(StatisticsArithmetic, DifferencesFromAMeanInTwoParts) {
  Reach reach;
  const CounterRandom random(3, 0);
  for (uint64_t i = 0; i < 20000; ++i) {
    const double mean = -1 - 0x1p-10 * random.uniform(2 * i);
    const auto value = static_cast<float>(0x1p-10 * random.uniform(2 * i + 1));
    const auto high = static_cast<float>(mean), low = static_cast<float>(mean - high);
    reach.hold(kInBalls.deviation({value}, {mean}), (value - high) - low);
    reach.hold(kInBalls.deviation({value}, {mean}), static_cast<float>(value - mean));
  }
  EXPECT_EQ(kInBalls.deviation({3}, {1}).radius, 0);
  EXPECT_FALSE(kInBalls.deviation({3e38}, {-3e38}).is_open());  // a path scales
}

// Stages that are not performed add nothing of their own.
TEST(StatisticsArithmetic, WhatIsCarriedIsDoubtAlone) {
  const Arithmetic carried(Arithmetic::Mode::kCarried);
  EXPECT_EQ(carried.constant(0.1).radius, 0);
  EXPECT_EQ(carried.sigmoid({0.3}).radius, 0);
  EXPECT_EQ(carried.deviation({0.1f}, {0.3}).radius, 0);
  EXPECT_EQ(carried.deviation({0.1f, 0.25}, {0.3, 0.5}).radius, 0.75);
  const Balls certain = values_around(1, 0), doubtful = values_around(1, 0.5);
  EXPECT_EQ(carried.moments(certain.row(), 1e-3).rstd.radius, 0);
  EXPECT_EQ(carried.mean_of_products(certain.row(), certain.row()).radius, 0);
  EXPECT_EQ(carried.total(certain.row()).radius, 0);
  EXPECT_EQ(carried.moments(doubtful.row(), 1e-3).mean.radius, 0.5 * kMargin);
  EXPECT_GT(carried.mean_of_products(doubtful.row(), certain.row()).radius, 0.25);
}

// Both differences lie half-way between two numbers of f32.
TEST(StatisticsArithmetic, BothDifferencesFromAMeanAreRounded) {
  const float value = 0x1p-24f, high = -1, low = -0x1p-24f + 0x1p-48f;
  const volatile float first = value - high;
  Reach reach;
  const double mean = static_cast<double>(high) + low;
  ASSERT_EQ(static_cast<float>(mean), high);
  reach.hold(kInBalls.deviation({value}, {mean}), first - low);
}

TEST(StatisticsArithmetic, MeanAndVarianceOfAnExample) {
  Reach mean, variance, rstd;
  for (double about : {0.0, 1000.0}) {
    const Balls values = values_around(about, 1e-5);
    const Moments ball = kInBalls.moments(values.row(), 1e-3);
    mean.hold(ball.mean, sum_of(moved(values, [](double) { return -1; })) / 50);
    for (double sign : {1.0, -1.0}) {
      const Balls worst = moved(values, [&](double v) { return v > ball.mean.mid ? sign : -sign; });
      const double middle = sum_of(worst) / 50;
      double squares = 0;
      for (size_t i = 0; i < worst.size(); ++i) squares += std::pow(worst[i].mid - middle, 2);
      variance.hold(ball.variance, squares / 50);
      rstd.hold(ball.rstd, static_cast<float>(1 / std::sqrt(squares / 50 + 1e-3)));
    }
  }
}

TEST(StatisticsArithmetic, NormalisedValues) {
  Reach reach;
  Balls values = values_around(0, 1e-5);
  values.set(0, {kInBalls.moments(values.row(), 0).mean.mid, 1e-5});
  const Ball ball = kInBalls.normalise(values[0], kInBalls.moments(values.row(), 1e-3));
  // All others are further to one side than they seem.
  Balls worst = moved(values, [](double) { return -1; });
  worst.set(0, {values[0].mid + 1e-5});
  const Moments moments = Arithmetic(Arithmetic::Mode::kExact).moments(worst.row(), 1e-3);
  reach.hold(ball, (worst[0].mid - moments.mean.mid) * moments.rstd.mid);
}

TEST(StatisticsArithmetic, AnExampleThatIsConstantOrAloneIsCertain) {
  const Balls constant(std::vector<double>(7, 0x1p100)), alone = values_around(1e30, 1e20, 1);
  EXPECT_EQ(kInBalls.normalise(constant[0], kInBalls.moments(constant.row(), 1e-3)).radius, 0);
  EXPECT_EQ(kInBalls.normalise(alone[0], kInBalls.moments(alone.row(), 1e-3)).radius, 0);
  // Two values that may differ by their errors have a variance of up to 1.
  const Balls alike(std::vector<double>(2, 1e7));
  Balls doubtful;
  for (int i = 0; i < 2; ++i) doubtful.push_back({1e7, 1});
  const Ball rstd = kInBalls.moments(doubtful.row(), 1e-3).rstd;
  EXPECT_LE(rstd.mid - rstd.radius, 1 / std::sqrt(1 + 1e-3));
  EXPECT_EQ(kInBalls.moments(alike.row(), 1e-3).rstd.mid, rstd.mid);
}

TEST(FactorFormat, IsThatOfEachPart) {
  EXPECT_EQ(float_format(Format::kStored), nullptr);
  EXPECT_EQ(float_format(Format::kF16)->precision, 11);
  EXPECT_EQ(float_format(Format::kBF16x3), float_format(Format::kBF16));
  EXPECT_EQ(float_format(Format::kF16x3), float_format(Format::kF16));
  const auto none = [] { float_format(static_cast<Format>(99)); };
  EXPECT_EQ(test::error_of(none, Error::Kind::kInternal), "Format(99) is not a format");
}

TEST(StatisticsArithmetic, SpecialValues) {
  const auto moments = [](Ball special) {
    Balls values = values_around(0, 0);
    values.set(3, special);
    return kInBalls.moments(values.row(), 1e-3);
  };
  for (double value : {HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    EXPECT_TRUE(std::isnan(moments({value}).mean.mid));
    EXPECT_TRUE(std::isnan(kInBalls.normalise({1}, moments({value})).mid));
    EXPECT_TRUE(std::isnan(kInBalls.moments(Balls(std::vector{1, value}).row(), 0).mean.mid));
  }
  EXPECT_TRUE(moments(Ball::open()).rstd.is_open());
  EXPECT_TRUE(kInBalls.normalise({1}, moments(Ball::open())).is_open());
}

// rstd = 1 / 6.7e38 has 20 bits in f32.
TEST(StatisticsArithmetic, APlantedEpsilonReachesEveryRstd) {
  const Arithmetic right(Arithmetic::Mode::kSampled, 7);
  const Arithmetic wrong(Plant{.kind = Plant::Kind::kEpsilonTimes10}, 7);
  const Balls values = values_around(0, 0);
  EXPECT_GT(right.rsqrt({0.01}, 1e-2).mid, 1.5 * wrong.rsqrt({0.01}, 1e-2).mid);
  EXPECT_GT(right.moments(values.row(), 10).rstd.mid, 1.5 * wrong.moments(values.row(), 10).rstd.mid);
}

TEST(StatisticsArithmetic, ASubnormalRstdLosesBits) {
  Reach reach;
  for (int i = 0; i < 100; ++i) {
    const double deviation = 6.7e38 * (1 - i / 1000.0);
    reach.hold(kInBalls.rsqrt({deviation * deviation}, 1e-3), static_cast<float>(1 / deviation));
  }
}

// Right paths at random lie in the balls, for any mean and any size.
TEST(StatisticsArithmetic, HoldsSampledPaths) {
  for (double size : {1e-30, 1.0, 1e30}) {
    for (double mean : {0.0, 1.0, 1e4}) {
      Balls values;
      const CounterRandom random(11, 0);
      for (uint64_t i = 0; i < 200; ++i)
        values.push_back({static_cast<float>(size * (mean + random.normal(i)))});
      const Moments balls = kInBalls.moments(values.row(), 1e-3);
      for (uint64_t seed = 0; seed < 200; ++seed) {
        const Arithmetic path(Arithmetic::Mode::kSampled, seed);
        const Moments got = path.moments(values.row(), 1e-3);
        const auto holds = [](Ball ball, Ball value) {
          return std::abs(value.mid - ball.mid) <= ball.radius;
        };
        EXPECT_TRUE(holds(balls.mean, got.mean));
        EXPECT_TRUE(holds(balls.variance, got.variance));
        EXPECT_TRUE(holds(balls.rstd, got.rstd));
        Balls y(values.size()), y_of_path(values.size());
        for (size_t i = 0; i < values.size(); ++i) {
          y.set(i, kInBalls.normalise(values[i], balls));
          y_of_path.set(i, path.normalise(values[i], got));
          EXPECT_TRUE(holds(y[i], y_of_path[i]));
        }
        EXPECT_TRUE(holds(kInBalls.mean_of_products(values.row(), y.row()),
                          path.mean_of_products(values.row(), y_of_path.row())));
      }
    }
  }
}

}  // namespace
}  // namespace assay
