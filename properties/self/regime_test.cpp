// SPDX-License-Identifier: Apache-2.0
// Each regime has the property that its comment promises and gives the same values everywhere.
#include "properties/core/regime.h"

#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <set>

#include "oracles/core/formula.h"
#include "properties/core/problem.h"
#include "properties/self/support.h"

namespace assay {
namespace {

constexpr int64_t kDrawn = 20000;
constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

double stored(DType dtype, double value) {
  return visit(dtype, [value]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

std::vector<double> draw(const Data& data, uint64_t seed = 1, int tensor = 0, int tensors = 1,
                         DType dtype = DType::kF32, int64_t elements = kDrawn) {
  const Drawing drawing(data, seed,
                        {.tensor = tensor,
                         .tensors = tensors,
                         .dtype = dtype,
                         .shape = {elements},
                         .common = format_of(dtype)});
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(stored(dtype, drawing(i)));
  return values;
}

struct SampleMoments {
  double mean = 0, variance = 0, largest = 0, smallest = INFINITY;  // the last two of |x|
};

SampleMoments moments_of(const std::vector<double>& values) {
  SampleMoments m;
  const auto count = static_cast<double>(values.size());
  for (double x : values) m.mean += x / count;
  for (double x : values) {
    m.variance += (x - m.mean) * (x - m.mean) / count;
    m.largest = std::max(m.largest, std::abs(x));
    m.smallest = std::min(m.smallest, std::abs(x));
  }
  return m;
}

// Whether the mean of `count` independent numbers with standard deviation `deviation` is as
// expected, within six standard errors. Chance exceeds them once in 10^9.
bool is_mean(double mean, double expected, double deviation, double count) {
  return std::abs(mean - expected) <= 6 * deviation / std::sqrt(count);
}

TEST(Regime, ContinuousOnesHaveTheirMoments) {
  const SampleMoments normal = moments_of(draw(Regime::kNormal));
  EXPECT_TRUE(is_mean(normal.mean, 0, 1, kDrawn)) << normal.mean;
  EXPECT_TRUE(is_mean(normal.variance, 1, std::sqrt(2), kDrawn)) << normal.variance;
  EXPECT_LT(normal.largest, 6);
  EXPECT_GT(normal.largest, 3);
  const SampleMoments uniform = moments_of(draw(Regime::kUniform));
  EXPECT_TRUE(is_mean(uniform.mean, 0, std::sqrt(1.0 / 3), kDrawn)) << uniform.mean;
  EXPECT_TRUE(is_mean(uniform.variance, 1.0 / 3, std::sqrt(4.0 / 45), kDrawn)) << uniform.variance;
  EXPECT_LE(uniform.largest, 1);
  const SampleMoments positive = moments_of(draw(Regime::kPositive));
  EXPECT_TRUE(is_mean(positive.mean, 1, std::sqrt(1.0 / 12), kDrawn)) << positive.mean;
  EXPECT_TRUE(is_mean(positive.variance, 1.0 / 12, std::sqrt(1.0 / 180), kDrawn)) << positive.variance;
  EXPECT_GE(positive.smallest, 0.5);
  EXPECT_LE(positive.largest, 1.5);
}

TEST(Regime, NormalHasFullSignificands) {
  int odd = 0;
  for (double x : draw(Regime::kNormal)) odd += std::bit_cast<uint32_t>(static_cast<float>(x)) & 1;
  EXPECT_TRUE(is_mean(odd / double{kDrawn}, 0.5, 0.5, kDrawn)) << odd;
}

TEST(Regime, IntegersAreSmallAndNeverZero) {
  for (DType dtype : kDTypes) {
    std::set<double> seen;
    for (double x : draw(Regime::kIntegers, 1, 0, 1, dtype)) {
      ASSERT_EQ(x, std::trunc(x));
      ASSERT_GE(std::abs(x), 1);
      ASSERT_LE(std::abs(x), 8);
      seen.insert(x);
    }
    EXPECT_EQ(seen.size(), 16u);
  }
}

TEST(Regime, OffsetIsAPowerOfTenThatTheDtypeResolves) {
  for (DType dtype : kDTypes) {
    std::set<double> ratios;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const SampleMoments m = moments_of(draw(Regime::kOffset, seed, 0, 2, dtype, 4000));
      // Rounding to a dtype that resolves an eighth of the deviation adds little to its square.
      EXPECT_GT(m.variance, 0.8) << name_of(dtype) << " mean " << m.mean;
      EXPECT_LT(m.variance, 1.2) << name_of(dtype) << " mean " << m.mean;
      const double exponent = std::round(std::log10(m.mean));
      EXPECT_TRUE(is_mean(m.mean, std::pow(10, exponent), 1.1, 4000)) << m.mean;
      ratios.insert(exponent);
    }
    EXPECT_EQ(*ratios.begin(), 1);
    EXPECT_LE(*ratios.rbegin(), 6);
    if (dtype == DType::kF32) {
      EXPECT_EQ(ratios.size(), 6u);
    }
  }
}

TEST(Regime, HeavyTailReachesFar) {
  std::vector<double> values = draw(Regime::kHeavyTail);
  const SampleMoments m = moments_of(values);
  EXPECT_LE(m.largest, 0x1p12);
  EXPECT_GT(m.largest, 0x1p9);
  for (double& x : values) x = std::abs(x);
  std::ranges::sort(values);
  EXPECT_LT(values[values.size() / 2], 4);
}

TEST(Regime, TinyAndHugeProductsAreNearTheEndsOfTheFormat) {
  for (DType dtype : kDTypes) {
    const FloatFormat format = format_of(dtype);
    const double tiny = moments_of(draw(Regime::kTiny, 1, 0, 2, dtype)).variance;
    EXPECT_LE(tiny, std::ldexp(1.0, format.min_exponent + 5)) << name_of(dtype);
    EXPECT_GE(tiny, std::ldexp(1.0, format.min_exponent - 2)) << name_of(dtype);
    const double huge = moments_of(draw(Regime::kHuge, 1, 0, 2, dtype)).variance;
    EXPECT_GE(huge, std::ldexp(1.0, format.max_exponent - 14)) << name_of(dtype);
    EXPECT_LE(huge, max_finite(dtype)) << name_of(dtype);
  }
}

// f32 sums are in the storage format. If partial sums of the regime huge overflowed, right paths
// would fail.
TEST(Regime, HugeSumsOfEightProductsStayFiniteInF32) {
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const double largest = moments_of(draw(Regime::kHuge, 1, 0, 2, dtype)).largest;
    EXPECT_LT(8 * largest * largest, max_finite(DType::kF32));
  }
}

TEST(Regime, HalfOfOneInputIsSubnormal) {
  for (DType dtype : kDTypes) {
    const double normal = std::ldexp(1.0, format_of(dtype).min_exponent);
    int chosen = 0;
    for (int tensor = 0; tensor < 3; ++tensor) {
      const auto values = draw(Regime::kSubnormal, 5, tensor, 3, dtype);
      const auto below = std::ranges::count_if(values, [&](double x) { return std::abs(x) < normal; });
      if (below < kDrawn / 10) continue;
      ++chosen;
      EXPECT_TRUE(is_mean(static_cast<double>(below) / kDrawn, 0.5, 0.5, kDrawn)) << below;
      EXPECT_LE(moments_of(values).largest, 4 * normal);
    }
    EXPECT_EQ(chosen, 1);
  }
}

TEST(Regime, ConstantIsOneValuePerTensor) {
  std::set<double> values;
  for (int tensor = 0; tensor < 3; ++tensor) {
    const auto drawn = draw(Regime::kConstant, 1, tensor, 3);
    EXPECT_EQ(std::set<double>(drawn.begin(), drawn.end()).size(), 1u);
    values.insert(drawn[0]);
  }
  EXPECT_EQ(values.size(), 3u);
  EXPECT_EQ(values.count(0), 0u);
}

TEST(Regime, SpikeIsOneElementOfOneInput) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    int chosen = 0;
    for (int tensor = 0; tensor < 3; ++tensor) {
      const auto values = draw(Regime::kSpike, seed, tensor, 3, DType::kF16, 100);
      const auto zeros = std::ranges::count(values, 0.0);
      if (zeros < 50) continue;
      ++chosen;
      EXPECT_EQ(zeros, 99);
    }
    EXPECT_EQ(chosen, 1);
  }
}

TEST(Regime, NonfiniteIsInOneInputAndAlwaysThere) {
  std::set<int> kinds;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    int chosen = 0;
    for (int tensor = 0; tensor < 2; ++tensor) {
      const auto values = draw(Regime::kNonfinite, seed, tensor, 2, DType::kBF16, 200);
      int found = 0;
      for (double x : values) {
        if (std::isfinite(x)) continue;
        ++found;
        kinds.insert(std::isnan(x) ? 0 : x > 0 ? 1 : -1);
      }
      if (found == 0) continue;
      ++chosen;
      EXPECT_LT(found, 40);
    }
    EXPECT_EQ(chosen, 1) << seed;
  }
  EXPECT_EQ(kinds.size(), 3u);
}

TEST(Regime, AllOthersAreFinite) {
  for (Regime regime : all_regimes()) {
    if (regime == Regime::kNonfinite) continue;
    for (DType dtype : kDTypes) {
      for (uint64_t seed = 0; seed < 10; ++seed) {
        for (double x : draw(regime, seed, 0, 2, dtype, 500))
          ASSERT_TRUE(std::isfinite(x)) << name_of(regime);
      }
    }
  }
}

TEST(Regime, CommonFormatIsTheNarrowest) {
  constexpr DType kMixed[] = {DType::kF32, DType::kF16, DType::kBF16};
  const FloatFormat common = common_format(kMixed);
  EXPECT_EQ(common.precision, 8);
  EXPECT_EQ(common.min_exponent, -14);
  EXPECT_EQ(common.max_exponent, 15);
  const FloatFormat alone = common_format(std::span(kMixed).first(1));
  EXPECT_EQ(alone.precision, 24);
  EXPECT_EQ(alone.min_exponent, -126);
}

// Whether some input serves all entries of the outermost dimension, as weights do.
bool shares_an_input(const Op& op) {
  return std::ranges::any_of(
      op.inputs, [&](const TensorInfo& tensor) { return axes_of(tensor).front() != op.dims.front().key; });
}

// What is wrong with the op's outputs on data of this regime, if they are all zero or none is
// finite. Tensors with a dtype of their own could make them so: products at the edge of f32 are far
// beyond f16.
std::string_view why_blind(const Op& op, const Oracle& oracle, DType dtype, Regime regime, uint64_t seed) {
  Case which{.op = std::string(op.name),
             .path = std::string(op.paths.front().name),
             .dtype = dtype,
             .dims = test::small_dims(op, 3)};
  which.data = regime;
  // With two entries, both would have a special value at an end.
  if (regime == Regime::kNonfinite && shares_an_input(op))
    which.dims.set(op.dims.front().key, std::min<int64_t>(8, op.dims.front().max));
  Problem problem(op, op.paths.front(), which, test::cpu());
  problem.draw_inputs(seed);
  bool has_nonzero = false;
  bool has_finite = false;
  for (size_t output = 0; output < op.outputs.size(); ++output) {
    std::vector<int64_t> elements(
        static_cast<size_t>(element_count(shape_of(op.outputs[output], which.dims))));
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int64_t>(i);
    std::vector<Ball> exact(elements.size());
    const Question question = problem.question();
    const Arithmetic arithmetic(Arithmetic::Mode::kExact);
    oracle.formula(question, static_cast<int>(output), arithmetic, 0)(elements, exact);
    for (const Ball& ball : exact) {
      const double value = stored(op.outputs[output].dtype.value_or(dtype), ball.mid);
      has_nonzero |= value != 0;
      has_finite |= std::isfinite(value);
    }
  }
  // A norm over an entry has no gradient along a constant.
  const bool may_vanish = regime == Regime::kConstant && shares_an_input(op);
  if (!has_finite) return "no output is finite";
  return has_nonzero || may_vanish ? "" : "all outputs are zero";
}

// A sentence on each regime that leaves nothing to see.
std::vector<std::string> blind_regimes(const Op& op, const Oracle& oracle) {
  std::vector<std::string> sentences;
  for (DType dtype : op.paths.front().dtypes) {
    for (Regime regime : all_regimes()) {
      if (regime == Regime::kSpike) continue;  // one element may meet no other factor
      std::vector<uint64_t> blind;
      std::string_view last;
      for (uint64_t seed = 0; seed < 20; ++seed) {
        const std::string_view why = why_blind(op, oracle, dtype, regime, seed);
        if (why.empty()) continue;
        blind.push_back(seed);
        last = why;
      }
      // A NaN among weights that every entry shares may leave nothing. The seed decides which input
      // has it.
      const bool may_be_blind = regime == Regime::kNonfinite && shares_an_input(op);
      if (blind.size() < (may_be_blind ? 18u : 1u)) continue;
      sentences.push_back(fmt::format(
          "{} in {}, data={}: {} with the seeds {}; inputs are drawn for terms of {} factors, the degree of "
          "the op's table",
          op.name, name_of(dtype), name_of(regime), last, fmt::join(blind, " "), op.degree));
    }
  }
  return sentences;
}

class RegimeOfEveryOp : public testing::TestWithParam<const Op*> {};
INSTANTIATE_TEST_SUITE_P(Ops, RegimeOfEveryOp, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST_P(RegimeOfEveryOp, LeavesSomethingToSee) {
  const Op& op = *GetParam();
  EXPECT_THAT(blind_regimes(op, registry().oracle(op.name)), testing::IsEmpty());
}

// out[n,h] = x[n,h] * gate[n,h] * weight[n,h], the weight in f32: an op of degree 3
Op product_of_three() {
  constexpr Dim kN{0, "n"}, kH{1, "h"};
  return {.name = "product",
          .formula = "out = x * gate * weight",
          .dims = {{kN, 1, 100, {}, "rows"}, {kH, 1, 100, {}, "columns"}},
          .inputs = {{Input{0, "x"}, "n h", {}, ""},
                     {Input{1, "gate"}, "n h", {}, ""},
                     {Input{2, "weight"}, "n h", DType::kF32, ""}},
          .outputs = {{Output{0, "out"}, "n h", {}, ""}},
          .cost = nullptr,
          .paths = {f32_path("cpu", DeviceKind::kCpu, {}, "")},
          .degree = 3};
}

const Oracle& oracle_of_product() {
  static const Oracle oracle{
      .op = "product", .formula = [](const Question& question, int, const Arithmetic& a, int) -> Evaluate {
        const auto& in = question.inputs;
        return each(question, a, in[0].shape,
                    [&a, x = Reader(in[0]), gate = Reader(in[1]), weight = Reader(in[2])](const Extents& at,
                                                                                          Products&) {
                      return a.multiply(a.multiply(x(at), gate(at)), weight(at));
                    });
      }};
  return oracle;
}

TEST(RegimeOfAnOp, FollowsItsDegree) {
  EXPECT_THAT(blind_regimes(product_of_three(), oracle_of_product()), testing::IsEmpty());
}

TEST(RegimeOfAnOp, SaysWhatIsWrongOfADegreeThatIsTooLow) {
  Op op = product_of_three();
  op.degree = op.least_degree = 2;
  const std::vector<std::string> blind = blind_regimes(op, oracle_of_product());
  EXPECT_THAT(
      blind,
      testing::Contains(testing::AllOf(
          testing::StartsWith("product in f32, data=tiny: all outputs are zero with the seeds 0 1"),
          testing::EndsWith("; inputs are drawn for terms of 2 factors, the degree of the op's table"))));
  EXPECT_THAT(blind,
              testing::Contains(testing::StartsWith("product in f32, data=huge: no output is finite")));
}

TEST(Regime, TensorsAndSeedsDiffer) {
  const auto first = draw(Regime::kNormal, 1, 0, 2);
  EXPECT_NE(first, draw(Regime::kNormal, 1, 1, 2));
  EXPECT_NE(first, draw(Regime::kNormal, 2, 0, 2));
  EXPECT_EQ(first, draw(Regime::kNormal, 1, 0, 2));
}

// The bits of the first hundred values of every regime. They are the same on every machine and with
// every compiler.
TEST(Regime, GoldenValues) {
  uint64_t hash = test::hash_of("");
  for (Regime regime : all_regimes()) {
    const Drawing drawing(regime, 42,
                          {.tensor = 1, .tensors = 2, .shape = {100}, .common = format_of(DType::kBF16)});
    for (int64_t i = 0; i < 100; ++i) {
      const double x = drawing(i);
      hash = test::hash_of(std::isnan(x) ? "nan" : fmt::format("{:x}", std::bit_cast<uint64_t>(x)), hash);
    }
  }
  EXPECT_EQ(hash, 4653733546450564749u);
}

// Whatever is drawn at once, an element is the same.
TEST(Regime, RangesHoldTheirElements) {
  for (Regime regime : all_regimes()) {
    const Drawing drawing(regime, 42, {.tensor = 1, .tensors = 2, .shape = {100}});
    std::vector<double> values(90);
    drawing.draw(7, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const double alone = drawing(7 + static_cast<int64_t>(i));
      ASSERT_EQ(std::bit_cast<uint64_t>(values[i]), std::bit_cast<uint64_t>(alone)) << name_of(regime) << i;
    }
  }
}

}  // namespace
}  // namespace assay
