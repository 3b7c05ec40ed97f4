// SPDX-License-Identifier: Apache-2.0
// Balls of the primitives of an Arithmetic. Each holds the worst right path that we know, and half
// of it does not. Whole formulas are sampled in ball_test.cpp.
#include "oracles/core/arithmetic.h"

#include <cmath>
#include <set>
#include <vector>

#include "properties/core/random.h"
#include "properties/self/support.h"

namespace assay {
namespace {

const Arithmetic kBall(Arithmetic::Mode::kBall);
const Arithmetic kExact(Arithmetic::Mode::kExact);

void expect_reached(Ball ball, double got) {
  EXPECT_LE(std::abs(got - ball.mid), ball.radius) << got << " in " << ball.mid << " +- " << ball.radius;
  EXPECT_GT(std::abs(got - ball.mid), ball.radius / 2) << "half the radius would do";
}

Ball dot(const std::vector<double>& a, const std::vector<double>& b, const Sum& sum = {}) {
  return kBall.dot(Balls(a).row(), Balls(b).row(), sum);
}

TEST(Rounded, AgreesWithTheStorageFormats) {
  const CounterRandom random(1, 0);
  for (uint64_t i = 0; i < 20000; ++i) {
    const int exponent = static_cast<int>(random.bits(i, 1) % 320) - 170;
    const double value = std::ldexp(2 * random.uniform(i) - 1, exponent);
    // Ties, too: 12 bits.
    const double tie = std::ldexp(std::rint(std::ldexp(2 * random.uniform(i, 2) - 1, 12)), exponent);
    for (double x : {value, tie, 0.0, -0.0, HUGE_VAL, 1e-300}) {
      for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        const double stored =
            visit(dtype, [x]<class T>(std::type_identity<T>) { return to_double(from_double<T>(x)); });
        const double got = rounded(format_of(dtype), x);
        ASSERT_EQ(got, stored) << x << " to " << name_of(dtype);
        ASSERT_EQ(std::signbit(got), std::signbit(stored)) << x;
      }
      ASSERT_EQ(rounded(format_of(DType::kF64), x), x);
    }
  }
  for (double x : {5e-324, -1.7e308}) EXPECT_EQ(rounded(format_of(DType::kF64), x), x);
}

TEST(Rounded, BallsBecomeCertainWhereBothEndsMeet) {
  const FloatFormat bf16 = format_of(DType::kBF16);
  EXPECT_EQ(rounded(bf16, Ball{1.001, 0x1p-12}).radius, 0);
  EXPECT_EQ(rounded(bf16, Ball{1.001, 0x1p-12}).mid, 1);
  EXPECT_EQ(rounded(bf16, Ball{1 + 0x1p-8, 0x1p-20}).radius, 0x1p-7);  // about a tie
  EXPECT_EQ(rounded(bf16, Ball{NAN, 0}).radius, 0);
  EXPECT_TRUE(rounded(bf16, Ball::open()).is_open());
  const double threshold = overflow_threshold(bf16);
  EXPECT_EQ(rounded(bf16, Ball{1.01 * threshold, 0x1p100}).mid, HUGE_VAL);
  EXPECT_TRUE(rounded(bf16, Ball{threshold, 0x1p100}).is_open());
}

// 1 takes nothing of what is half its last place.
TEST(Dot, AddsUpInAnyOrder) {
  std::vector<double> terms(33, 0x1p-24);
  terms[0] = 1;
  expect_reached(dot(terms, std::vector<double>(33, 1)), 1);
}

TEST(Dot, Truncates) {
  std::vector<double> terms(33, 0x1p-23 - 0x1p-40);
  terms[0] = 1;
  expect_reached(dot(terms, std::vector<double>(33, 1), {.truncates = true}), 1);
}

TEST(Dot, OfNeighboursIsOffByTheRangeOfPrefixSums) {
  std::vector<double> terms(64, 0x1p-24), ones(64, 1);
  terms[0] = 1;
  const Sum contiguous{.order = Sum::Order::kContiguous};
  EXPECT_LE(std::abs(1 - dot(terms, ones, contiguous).mid), dot(terms, ones, contiguous).radius);
  for (size_t i = 0; i < terms.size(); ++i) terms[i] = i % 2 == 0 ? 1.1 : -1.1;
  std::vector<double> many, factors(6400, 1 / 3.0);
  for (int i = 0; i < 100; ++i) many.insert(many.end(), terms.begin(), terms.end());
  const double radius = dot(many, factors, contiguous).radius;
  EXPECT_LT(radius, 0.01 * dot(many, factors).radius);
  // Additions, of a step of 32 products as all steps end at 0, and the products themselves.
  EXPECT_GE(radius, 0x1p-24 * (6400 * 32 + 6400) * 1.1 / 3);
}

TEST(Dot, CarriesTheDoubtOfItsFactors) {
  Balls a, b;
  for (int i = 0; i < 20; ++i) {
    a.push_back({i - 9.5, 0.01});
    b.push_back({3, 0.02});
  }
  double most = 0;
  for (int i = 0; i < 20; ++i) most += (i - 9.5 + 0.01) * (3 + (i > 9 ? 0.02 : -0.02));
  expect_reached(kBall.dot(a.row(), b.row(), {}), most);
}

// Each product may lose half a smallest number, however many are added up in f32.
TEST(Dot, CountsTheUnderflowOfEveryProduct) {
  const std::vector<double> tiny(100000, 0x1p-75), tinier(100000, 0x1p-76);
  for (size_t group : {0, 32}) {
    const Ball sum = dot(tiny, tinier, {.group = group});
    EXPECT_GE(sum.radius, sum.mid) << group;
  }
}

TEST(Dot, IsExactWhereNothingIsRounded) {
  EXPECT_EQ(dot({3, -5, 7}, {1024, 2, 0.5}).radius, 0);
  EXPECT_EQ(dot({0, 0}, {0.1, 0.3}).radius, 0);
  EXPECT_GT(dot({0x1p24, 1}, {1, 1}).radius, 0);
  EXPECT_EQ(dot({}, {}).mid, 0);
  // One product is rounded once.
  const float a = 1.1f, b = 1.3f;
  EXPECT_EQ(dot({a}, {b}).mid, static_cast<double>(a * b));
  EXPECT_EQ(dot({a}, {b}).radius, 0);
}

TEST(Rounding, DoesWhatTheRecipeSays) {
  const Arithmetic balls(Arithmetic::Mode::kBall);
  const Rounding to_zero{.format = Format::kBF16, .mode = Rounding::Mode::kTowardZero};
  EXPECT_EQ(balls.round(to_zero, {1.999}).mid, 2 - 0x1p-7);
  EXPECT_EQ(balls.round(to_zero, {-1.999}).mid, -2 + 0x1p-7);
  EXPECT_EQ(balls.round(to_zero, {1e39}).mid, (2 - 0x1p-7) * 0x1p127);
  const Rounding either_way{.format = Format::kTF32, .mode = Rounding::Mode::kNearest};
  EXPECT_EQ(balls.round(either_way, {1 + 0x1p-11}).radius, 0x1p-10);
  EXPECT_EQ(balls.round(either_way, {1 + 0x1p-12}).radius, 0);
  const Rounding optional{.format = Format::kBF16, .is_optional = true};
  EXPECT_EQ(balls.round(optional, {1.001}).mid, 1);
  EXPECT_EQ(balls.round(optional, {1.001}).radius, 1.001 - 1);
  const Rounding to_f16{.format = Format::kF16, .is_optional = true};
  EXPECT_TRUE(balls.round(to_f16, {70000}).is_open());  // or an infinity
  EXPECT_EQ(balls.round(to_f16, {HUGE_VAL}).mid, HUGE_VAL);
  std::set<double> taken;
  for (uint64_t seed = 0; seed < 20; ++seed)
    taken.insert(Arithmetic(Arithmetic::Mode::kSampled, seed).round(optional, {1.001}).mid);
  EXPECT_EQ(taken, (std::set<double>{1, 1.001}));
  EXPECT_EQ(balls.round(Rounding{.format = Format::kBF16x3}, {1.001}).mid, 1.001);
}

// The smallest number of the path is 2 * kLost. Half of it becomes 0, and all of it by truncation.
TEST(Rounding, LosesWhatUnderflowsInAScaledFormat) {
  constexpr double kLost = 0x1p-38;
  const Arithmetic path(Arithmetic::Mode::kSampled, 0);
  Rounding to_f16{.format = Format::kF16, .is_scaled = true};
  const double half = kLost * (1 - 0x1p-10);
  expect_reached(kBall.round(to_f16, {half}, kLost), path.round(to_f16, {half}, kLost).mid);
  to_f16.mode = Rounding::Mode::kTowardZero;
  expect_reached(kBall.round(to_f16, {2 * half}, kLost), path.round(to_f16, {2 * half}, kLost).mid);
  EXPECT_EQ(kBall.round(to_f16, {0x1p-20}, kLost).radius, 0);
}

// A function may be off in one direction for all values, as the two plainest paths are.
TEST(Rsqrt, IsOffByAllThatIsGrantedInTheFirstPaths) {
  for (double v : {0.3, 1.7, 42.0}) {
    const double exact = kExact.rsqrt({v}, 0).mid;
    const auto off = [&](uint64_t seed) {
      return Arithmetic(Arithmetic::Mode::kSampled, seed).rsqrt({v}, 0).mid / exact - 1;
    };
    EXPECT_GT(off(0), 2 * kUnit);
    EXPECT_LT(off(1), -2 * kUnit);
  }
}

// In f32, with one rounding after the other. Half of what is granted would not do.
TEST(Rsqrt, IsOffByItsRoundings) {
  double most = 0;
  const CounterRandom random(9, 0);
  for (uint64_t i = 0; i < 100000; ++i) {
    const auto v = static_cast<float>(1e-5 * random.uniform(i));
    const float root = std::sqrt(v + 1e-3f), got = 1 / root;
    const Ball ball = kBall.rsqrt({v}, 1e-3);
    const double distance = std::abs(got - ball.mid);
    ASSERT_LE(distance, ball.radius) << v;
    most = std::max(most, distance / ball.radius);
  }
  EXPECT_GT(most, 0.5);
}

TEST(Dot, FollowsIeeeWhereItIsCertain) {
  EXPECT_EQ(dot({HUGE_VAL, 1}, {2, 3}).mid, HUGE_VAL);
  EXPECT_TRUE(std::isnan(dot({HUGE_VAL, HUGE_VAL}, {2, -3}).mid));
  EXPECT_TRUE(std::isnan(dot({HUGE_VAL, 1}, {0, 3}).mid));
  Balls doubtful;
  doubtful.push_back({0.1, 0.2});
  EXPECT_TRUE(kBall.dot(Balls(std::vector{HUGE_VAL}).row(), doubtful.row(), {}).is_open());
  // A sum that overflows in any order, and one that need not.
  EXPECT_EQ(dot({3e38, 3e38}, {1, 1}).mid, HUGE_VAL);
  EXPECT_TRUE(dot({3e38, 3e38, -3e38}, {1, 1, 1}).is_open());
  // The negative products may overflow first.
  EXPECT_TRUE(dot({3e38, 3e38, 3e38, 3e38, -3e38, -3e38}, {1, 1, 1, 1, 1, 1}).is_open());
  // 3e38 + 3e38 first makes a NaN.
  EXPECT_TRUE(dot({-HUGE_VAL, 3e38, 3e38}, {1, 1, 1}).is_open());
  EXPECT_EQ(dot({-HUGE_VAL, 3e37, 3e37}, {1, 1, 1}).mid, -HUGE_VAL);
  // The products cancel, but one alone overflows.
  EXPECT_TRUE(dot({0x1p100, 0x1p100}, {0x1p30, -0x1p30}).is_open());
  EXPECT_EQ(dot({0x1p90, 0x1p90}, {0x1p30, -0x1p30}).radius, 0);
}

TEST(Multiply, IsOffByOneRoundingAndTheDoubtOfBoth) {
  EXPECT_EQ(kBall.multiply({1.5}, {2}).radius, 0);
  const float a = 1 + 0x1p-12f;  // its square lies half-way between two numbers of f32
  expect_reached(kBall.multiply({a}, {a}), a * a);
  expect_reached(kBall.multiply({2, 0.1}, {-3, 0.2}), 2.1 * -3.2);
  expect_reached(kBall.add({2, 0.1}, {-3, 0.2}), 2.1 - 2.8);
  EXPECT_TRUE(kBall.multiply({3e38}, {2}).mid == HUGE_VAL);
}

// (1 + 2^-12)^2 and what is added to it both lie half-way between two numbers of f32.
TEST(MultiplyAdd, IsOffByTheRoundingsOfTheProductAndOfTheSum) {
  const float a = 1 + 0x1p-12f, c = 0x1p-24f;
  const volatile float product = a * a;
  expect_reached(kBall.multiply_add({a}, {a}, {c}), product + c);
  EXPECT_EQ(kBall.multiply_add({3}, {1.5}, {0.25}).radius, 0);
  expect_reached(kBall.multiply_add({2, 0.1}, {-3, 0.2}, {5, 0.1}), 2.1 * -3.2 + 4.9);
  // Fused, it does not overflow.
  EXPECT_TRUE(kBall.multiply_add({3e38}, {2}, {-3e38}).is_open());
  EXPECT_EQ(kBall.multiply_add({3e38}, {2}, {HUGE_VAL}).mid, HUGE_VAL);
  for (const Ball nan :
       {kBall.multiply_add({1}, {kNan}, {0}), kBall.multiply_add({1}, {HUGE_VAL}, {-HUGE_VAL})}) {
    EXPECT_TRUE(std::isnan(nan.mid));
    EXPECT_EQ(nan.radius, 0);
  }
}

// Each of 32 lanes adds up 128 squares. In the first, 1 takes nothing of what is half its last
// place.
TEST(MeanSquare, IsOffByTheRoundingsOfALane) {
  std::vector<double> row(4096, 0x1p-12);
  row[0] = 1;
  float lanes[32] = {};
  for (size_t i = 0; i < row.size(); ++i) {
    const auto value = static_cast<float>(row[i]);
    lanes[i % 32] = std::fma(value, value, lanes[i % 32]);
  }
  float sum = 0;
  for (float lane : lanes) sum += lane;
  expect_reached(kBall.mean_square(Balls(row).row(), {}), sum / 4096);
}

using Function = Ball (Arithmetic::*)(const Ball&) const;

// The largest distance of sampled paths over radii, at many places.
double reach_of(Function f, double radius) {
  const CounterRandom random(5, 0);
  double most = 0;
  for (uint64_t i = 0; i < 5000; ++i) {
    const double z = 8 * (2 * random.uniform(i) - 1);
    const Ball ball = (kBall.*f)({z, radius});
    for (double end : {z - radius, z, z + radius}) {
      const Arithmetic path(Arithmetic::Mode::kSampled, i);
      const double distance = std::abs((path.*f)({end, 0}).mid - ball.mid);
      EXPECT_LE(distance, ball.radius) << z << " +- " << radius;
      most = std::max(most, distance / ball.radius);
    }
  }
  return most;
}

TEST(Sigmoid, HoldsWhatEndsBecomeAndWhatIsGranted) {
  for (double radius : {0.0, 1e-6, 0.1, 3.0}) EXPECT_GT(reach_of(&Arithmetic::sigmoid, radius), 0.5);
  EXPECT_EQ(kBall.sigmoid({HUGE_VAL, 0}).mid, 1);
  EXPECT_EQ(kBall.sigmoid({-HUGE_VAL, 0}).mid, 0);
}

// e^-100 as a subnormal number, or 0.
TEST(Sigmoid, UnderflowsAsItIsGranted) {
  const auto of_path = [](uint64_t seed) {
    return Arithmetic(Arithmetic::Mode::kSampled, seed).sigmoid({-100}).mid;
  };
  expect_reached(kBall.sigmoid({-100}), of_path(0));
  EXPECT_GT(of_path(0), 0x0.8p-126);
  EXPECT_EQ(of_path(1), 0);
}

// A tanh near -1 that is 3 1/2 of its last places off.
TEST(Gelu, IsOffByWhatTanhIs) {
  const double z = -3, inner = 0.7978845608028654 * (z + 0.044715 * z * z * z);
  const double tanh = std::tanh(inner) + 7 * kUnit;
  expect_reached(kBall.gelu({z}), z / 2 * (1 + tanh));
}

TEST(Gelu, HoldsWhatEndsBecomeAndItsMinimum) {
  for (double radius : {0.0, 1e-6, 0.1, 3.0}) EXPECT_GT(reach_of(&Arithmetic::gelu, radius), 0.5);
  const Ball around = kBall.gelu({-3, 2.4});
  EXPECT_LE(std::abs(kExact.gelu({-0.75246, 0}).mid - around.mid), around.radius);
  EXPECT_EQ(kBall.gelu({0, 0}).radius, 0);
}

// An element near the mean, moved away from all others.
TEST(LayerNorm, CarriesTheDoubtOfTheRow) {
  constexpr size_t kCount = 64;
  Balls row, moved, ones(std::vector<double>(kCount, 1)), zeros(std::vector<double>(kCount, 0)), y(kCount),
      z(kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const double value = i == 0 ? 0 : i % 2 == 0 ? 100 : -100;
    row.push_back({value, 0.01});
    moved.push_back({i == 0 ? 0.01 : value - 0.01, 0});
  }
  kBall.layer_norm(row.row(), ones.row(), zeros.row(), 1e-5, false, y);
  kExact.layer_norm(moved.row(), ones.row(), zeros.row(), 1e-5, false, z);
  expect_reached(y[0], z[0].mid);
  kBall.layer_norm(Balls(std::vector<double>(kCount, 0.1)).row(), ones.row(), zeros.row(), 1e-5, false, y);
  EXPECT_EQ(y[3].mid, 0);
  EXPECT_EQ(y[3].radius, 0);  // equal values have no deviation
}

// Two chains of 32 deviations from the first value. From 16 on, each addition loses 7/16 of a last
// place.
TEST(LayerNorm, CarriesTheRoundingsOfTheMean) {
  constexpr size_t kCount = 64;
  std::vector<double> row(kCount, 1 + 7 * 0x1p-23);
  row[0] = 0;
  float sums[2] = {};
  for (size_t i = 0; i < kCount; ++i) sums[i / 32] += static_cast<float>(row[i]);
  const float mean = (sums[0] + sums[1]) / kCount;
  const Balls ones(std::vector<double>(kCount, 1)), zeros(std::vector<double>(kCount, 0));
  Balls y(kCount), exact(kCount);
  kBall.layer_norm(Balls(row).row(), ones.row(), zeros.row(), 1e-5, false, y);
  kExact.layer_norm(Balls(row).row(), ones.row(), zeros.row(), 1e-5, false, exact);
  const double rstd = (exact[1].mid - exact[0].mid) / row[1];
  const double error = std::abs((row[1] - static_cast<double>(mean)) * rstd - y[1].mid);
  EXPECT_LE(error, y[1].radius);
  EXPECT_GT(error, y[1].radius / 8);
}

TEST(LayerNorm, OfOneValueIsItsBias) {
  Balls one, weight(std::vector<double>{3}), bias(std::vector<double>{0.5}), y(1);
  one.push_back({7, 0.1});
  kBall.layer_norm(one.row(), weight.row(), bias.row(), 1e-5, false, y);
  EXPECT_EQ(y[0].mid, 0.5);
  EXPECT_EQ(y[0].radius, 0);
}

// The middle value is the mean: its deviation has no sign.
TEST(LayerNorm, IsOpenWhereAnInfiniteWeightMeetsADeviationWithoutSign) {
  Balls row, weight(std::vector<double>{1, 1, HUGE_VAL}), bias(std::vector<double>(3, 0)), y(3);
  for (double value : {0.1, 1.3, 0.7}) row.push_back({value, 1e-6});
  kBall.layer_norm(row.row(), weight.row(), bias.row(), 1e-5, false, y);
  EXPECT_TRUE(y[2].is_open());
  EXPECT_FALSE(y[0].is_open());
}

// A mean of 2^24 + 1/2 that is rounded moves all deviations by a half.
TEST(LayerNorm, KnowsMeansThatAreRounded) {
  Balls row, ones(std::vector<double>(2, 1)), zeros(std::vector<double>(2, 0)), y(2), z(2);
  row.push_back({0x1p24});
  row.push_back({0x1p24 + 2});
  kBall.layer_norm(row.row(), ones.row(), zeros.row(), 1e-5, true, y);
  kBall.layer_norm(row.row(), ones.row(), zeros.row(), 1e-5, false, z);
  EXPECT_GT(y[0].radius, 1e3 * z[0].radius);
}

// The mean is 2^25 + 66, and a path's 2^25 + 64. So its variance is 32 in place of 28.
TEST(LayerNorm, KnowsWhatARoundedMeanDoesToTheVariance) {
  std::vector<double> row(8, 0x1p25 + 68);
  row[0] -= 16;
  const Balls ones(std::vector<double>(8, 1)), zeros(std::vector<double>(8, 0));
  Balls y(8);
  kBall.layer_norm(Balls(row).row(), ones.row(), zeros.row(), 1e-5, true, y);
  expect_reached(y[0], (row[0] - static_cast<float>(0x1p25 + 66)) / std::sqrt(32.0));
}

TEST(OneStage, LeavesOthersExact) {
  const Arithmetic first = Arithmetic::of_stage(Arithmetic::Mode::kBall, 0);
  EXPECT_EQ(first.at(1).round(DType::kBF16, {1.001}).mid, 1.001);
  EXPECT_EQ(first.at(0).round(DType::kBF16, {1.001}).mid, 1);
  EXPECT_EQ(first.at(1).multiply({1.1, 0.1}, {2}).radius, 0.2);  // what is in doubt stays in doubt
  EXPECT_GT(first.at(0).multiply({1.1, 0.1}, {2}).radius, 0.2);
}

TEST(LowestExponent, IsOfThePowerOfTwoThatDividesTheValue) {
  EXPECT_EQ(lowest_exponent(1), 0);
  EXPECT_EQ(lowest_exponent(-12), 2);
  EXPECT_EQ(lowest_exponent(0.75), -2);
  EXPECT_EQ(lowest_exponent(0x1p-149), -149);
  EXPECT_EQ(lowest_exponent(0x1.000002p100), 77);
  EXPECT_EQ(lowest_exponent(5e-324), -1074);
}

}  // namespace
}  // namespace assay
