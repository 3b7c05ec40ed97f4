// SPDX-License-Identifier: Apache-2.0
// Each ingredient has the property that its comment promises, in as many inputs as it says.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "properties/core/problem.h"
#include "properties/core/regime.h"
#include "properties/self/support.h"

namespace assay {
namespace {

constexpr int64_t kDrawn = 2000;
constexpr DType kDTypes[] = {DType::kF32, DType::kF16, DType::kBF16};

std::vector<double> draw(const Data& data, uint64_t seed, int tensor, int tensors, DType dtype) {
  const Drawing drawing(
      data, seed,
      {.tensor = tensor, .tensors = tensors, .dtype = dtype, .shape = {kDrawn}, .common = format_of(dtype)});
  std::vector<double> values;
  for (int64_t i = 0; i < kDrawn; ++i) {
    values.push_back(
        visit(dtype, [&]<class T>(std::type_identity<T>) { return to_double(from_double<T>(drawing(i))); }));
  }
  return values;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (double x : values) largest = std::max(largest, std::abs(x));
  return largest;
}

// Whether a share of the drawn numbers is as expected, within six standard errors. Chance exceeds
// them once in 10^9.
bool is_share(double share, double expected) {
  return std::abs(share - expected) <= 6 * 0.5 / std::sqrt(static_cast<double>(kDrawn));
}

Data normal_with(std::initializer_list<Ingredient> ingredients) {
  Data data;
  for (Ingredient ingredient : ingredients) data.mix_in(ingredient);
  return data;
}

// The share of these numbers that have a property.
template <class Property>
double share(const std::vector<double>& values, const Property& property) {
  return static_cast<double>(std::ranges::count_if(values, property)) / static_cast<double>(values.size());
}

// In how many of three inputs, for 50 seeds, the share is as it should be in an input that has the
// ingredient; in the others it must be 0.
std::set<int> inputs_with(Ingredient ingredient, DType dtype, double expected,
                          const std::function<bool(double)>& property) {
  std::set<int> counts;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    int count = 0;
    for (int tensor = 0; tensor < 3; ++tensor) {
      const double found = share(draw(normal_with({ingredient}), seed, tensor, 3, dtype), property);
      if (found == 0) continue;
      ++count;
      EXPECT_TRUE(expected == 1 ? found == 1 : is_share(found, expected))
          << name_of(ingredient) << " " << found;
    }
    counts.insert(count);
  }
  return counts;
}

TEST(Ingredient, ZerosOfBothSignsAreInSomeInputs) {
  for (DType dtype : kDTypes) {
    const auto zero = [](bool sign) { return [=](double x) { return x == 0 && std::signbit(x) == sign; }; };
    EXPECT_EQ(inputs_with(Ingredient::kZeros, dtype, 1.0 / 8, zero(true)), (std::set{1, 2, 3}));
    EXPECT_EQ(inputs_with(Ingredient::kZeros, dtype, 1.0 / 8, zero(false)), (std::set{1, 2, 3}));
  }
}

TEST(Ingredient, OnesAreInSomeInputs) {
  EXPECT_EQ(inputs_with(Ingredient::kOnes, DType::kF32, 1.0 / 4, [](double x) { return x == 1; }),
            (std::set{1, 2, 3}));
}

TEST(Ingredient, AMaskHoldsNothingElse) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    int masks = 0;
    for (int tensor = 0; tensor < 3; ++tensor) {
      const auto values = draw(normal_with({Ingredient::kMask}), seed, tensor, 3, DType::kF16);
      const double ones = share(values, [](double x) { return x == 1; });
      const double zeros = share(values, [](double x) { return x == 0; });
      if (ones < 0.1) continue;  // a rounded number may be 1
      ++masks;
      EXPECT_EQ(ones + zeros, 1);
      EXPECT_TRUE(is_share(ones, 0.5)) << ones;
    }
    EXPECT_GE(masks, 1);
  }
}

TEST(Ingredient, InfinitiesMeetZerosOfAnotherInput) {
  const Data data = normal_with({Ingredient::kInfinities, Ingredient::kZeros});
  int met = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const auto a = draw(data, seed, 0, 2, DType::kF32), b = draw(data, seed, 1, 2, DType::kF32);
    for (size_t i = 0; i < a.size(); ++i) met += std::isnan(a[i] * b[i]);
  }
  EXPECT_GT(met, 50);
}

TEST(Ingredient, InfinitiesAndNansAreAlwaysThereAndFew) {
  for (Ingredient ingredient : {Ingredient::kInfinities, Ingredient::kNans}) {
    std::set<int> counts, signs;
    bool is_alone = false;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      int count = 0;
      for (int tensor = 0; tensor < 3; ++tensor) {
        const auto values = draw(normal_with({ingredient}), seed, tensor, 3, DType::kBF16);
        int found = 0;
        for (double x : values) {
          const bool is_one = ingredient == Ingredient::kNans ? std::isnan(x) : std::isinf(x);
          ASSERT_TRUE(is_one || std::isfinite(x));
          found += is_one;
          if (is_one) signs.insert(std::signbit(x));
        }
        EXPECT_LT(found, 100);
        is_alone |= found == 1;
        count += found > 0;
      }
      counts.insert(count);
    }
    EXPECT_EQ(counts, (std::set{1, 2, 3}));
    EXPECT_EQ(signs.size(), 2u);
    EXPECT_TRUE(is_alone);
  }
}

// Stored NaNs keep what was drawn of them.
TEST(Ingredient, NansHaveAnyPayloadQuietOrSignalling) {
  for (DType dtype : kDTypes) {
    Case which{.op = "dynamic_conv",
               .path = "cpu",
               .dtype = dtype,
               .dims = {{"b", 2}, {"t", 9}, {"d", 5}, {"w", 3}}};
    which.data = normal_with({Ingredient::kNans});
    std::set<uint64_t> patterns;
    std::set<bool> quiet;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Problem problem(registry().op("dynamic_conv"), registry().op("dynamic_conv").paths.front(), which,
                      test::cpu());
      problem.draw_inputs(seed);
      for (const auto& tensor : problem.inputs()) {
        visit(dtype, [&]<class T>(std::type_identity<T>) {
          for (size_t at = 0; at < tensor.size(); at += sizeof(T)) {
            T value;
            std::memcpy(&value, &tensor[at], sizeof(T));
            if (!std::isnan(to_double(value))) continue;
            uint64_t bits = 0;
            std::memcpy(&bits, &value, sizeof(T));
            patterns.insert(bits);
            quiet.insert((bits >> (format_of(dtype).precision - 2) & 1) != 0);
          }
        });
      }
    }
    EXPECT_GT(patterns.size(), 40u) << name_of(dtype);
    EXPECT_EQ(quiet.size(), 2u) << name_of(dtype);
  }
}

TEST(Ingredient, ALargeInputIsNearTheEndOfItsRangeAndOthersAreNormal) {
  for (DType dtype : kDTypes) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      int large = 0;
      for (int tensor = 0; tensor < 3; ++tensor) {
        const double most = largest_of(draw(normal_with({Ingredient::kLargeInput}), seed, tensor, 3, dtype));
        if (most < 6) continue;
        ++large;
        // The least of the powers of two, and the largest of a few numbers if one index has them.
        EXPECT_GT(most, max_finite(dtype) * 0x1p-13);
        EXPECT_LE(most, max_finite(dtype));
      }
      EXPECT_EQ(large, 1);
    }
  }
}

TEST(Ingredient, AllWeightsAreSubnormalAndTheFirstInputIsNot) {
  for (DType dtype : kDTypes) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      const auto values = draw(normal_with({Ingredient::kSubnormalWeights}), 1, tensor, 3, dtype);
      const double normal = std::ldexp(1.0, format_of(dtype).min_exponent);
      const double below = share(values, [&](double x) { return std::abs(x) <= normal; });
      EXPECT_EQ(below > 0.5, tensor > 0);
      if (tensor > 0) {
        EXPECT_EQ(below, 1);
        EXPECT_GT(share(values, [](double x) { return x != 0; }), 0.9);
      }
    }
  }
}

// Along one axis the powers differ, along the others they are equal.
TEST(Ingredient, ScalesFollowOneAxis) {
  std::set<int> axes;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const Extents shape{5, 7, 6};
    const auto drawn = [&](const Data& data) {
      return Drawing(data, seed, {.tensor = 0, .tensors = 1, .dtype = DType::kF32, .shape = shape});
    };
    const Drawing plain = drawn(Data{}), scaled = drawn(normal_with({Ingredient::kScales}));
    std::vector<std::set<double>> of_index[3];
    for (int axis = 0; axis < 3; ++axis) of_index[axis].resize(static_cast<size_t>(shape[axis]));
    for (int64_t i = 0; i < element_count(shape); ++i) {
      const double ratio = scaled(i) / plain(i);
      ASSERT_EQ(std::exp2(std::round(std::log2(ratio))), ratio);
      ASSERT_LE(std::abs(std::log2(ratio)), 31);
      for (int axis = 0; axis < 3; ++axis)
        of_index[axis][static_cast<size_t>(index_of(i, shape)[axis])].insert(ratio);
    }
    for (int axis = 0; axis < 3; ++axis) {
      if (std::ranges::all_of(of_index[axis], [](const auto& ratios) { return ratios.size() == 1; }))
        axes.insert(axis);
    }
  }
  EXPECT_EQ(axes, (std::set{0, 1, 2}));
}

// Of inputs in which one has an ingredient, which one it is, for 60 seeds: the first in more than
// half of them.
void expect_mostly_the_first(const std::map<int, int>& seeds_of) {
  EXPECT_EQ(seeds_of.size(), 3u);
  EXPECT_GT(seeds_of.at(0), 30);
}

// Along its axis the other indices have nothing of that size.
TEST(Ingredient, OneIndexIsLargeAndTheOthersAreOrdinaryTinyOrZero) {
  const Extents shape{5, 7, 6};
  std::map<int, int> seeds_of;
  std::set<int> axes;
  std::set<int64_t> indices;
  int ordinary = 0, tiny = 0, zero = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (int tensor = 0; tensor < 3; ++tensor) {
      const auto drawn = [&](const Data& data) {
        return Drawing(data, seed, {.tensor = tensor, .tensors = 3, .shape = shape});
      };
      const Drawing plain = drawn(Data{}), mixed = drawn(normal_with({Ingredient::kLargeIndex}));
      std::set<double> factors;
      for (int64_t i = 0; i < 210; ++i) factors.insert(std::abs(mixed(i) / plain(i)));
      if (factors == std::set{1.0}) continue;  // another input has it
      ++seeds_of[tensor];
      ASSERT_EQ(factors.size(), 2u);
      const double low = *factors.begin(), high = *factors.rbegin();
      EXPECT_GE(high, 16);
      EXPECT_LE(high, 0x1p124);
      ordinary += low == 1;
      zero += low == 0;
      tiny += low > 0 && low < 1;
      for (int axis = 0; axis < 3; ++axis) {
        std::set<int64_t> of_high, of_low;
        for (int64_t i = 0; i < 210; ++i)
          (std::abs(mixed(i) / plain(i)) == high ? of_high : of_low).insert(index_of(i, shape)[axis]);
        if (of_high.size() != 1 || of_low.contains(*of_high.begin())) continue;
        axes.insert(axis);
        indices.insert(*of_high.begin());
      }
    }
  }
  expect_mostly_the_first(seeds_of);
  EXPECT_EQ(axes, (std::set{0, 1, 2}));
  EXPECT_GE(indices.size(), 5u);
  EXPECT_GT(ordinary, 15);
  EXPECT_GT(tiny, 5);
  EXPECT_GT(zero, 5);
}

TEST(Ingredient, ALargeIndexStaysFinite) {
  for (DType dtype : kDTypes) {
    for (Regime regime : {Regime::kHuge, Regime::kHeavyTail, Regime::kOffset}) {
      for (uint64_t seed = 0; seed < 20; ++seed) {
        Data data(regime);
        data.mix_in(Ingredient::kLargeIndex).mix_in(Ingredient::kScales);
        EXPECT_LE(largest_of(draw(data, seed, 0, 1, dtype)), max_finite(dtype));
      }
    }
  }
}

TEST(Ingredient, OneInputIsNearTheLimitAndTheOthersAreAtMostOne) {
  for (DType dtype : kDTypes) {
    std::map<int, int> seeds_of;
    std::set<double> others;
    int with_a_rare_sign = 0, constant = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      for (int tensor = 0; tensor < 3; ++tensor) {
        const auto values = draw(normal_with({Ingredient::kNearLimit}), seed, tensor, 3, dtype);
        const double most = largest_of(values);
        const double negative = share(values, [](double x) { return x < 0; });
        if (most <= 1) {
          others.insert(std::exp2(std::ceil(std::log2(most))));
          constant += share(values, [&](double x) { return std::abs(x) == most; }) == 1;
          EXPECT_TRUE(is_share(negative, 0.5)) << negative;
          continue;
        }
        ++seeds_of[tensor];
        EXPECT_EQ(share(values, [&](double x) { return std::abs(x) >= max_finite(dtype) / 2.01; }), 1);
        EXPECT_GT(most, 0.99 * max_finite(dtype));
        EXPECT_LE(most, max_finite(dtype));
        with_a_rare_sign += is_share(negative, 0.125);
        EXPECT_TRUE(is_share(negative, 0.125) || is_share(negative, 0.5)) << negative;
      }
    }
    int seeds = 0;
    for (const auto& [tensor, count] : seeds_of) seeds += count;
    EXPECT_EQ(seeds, 60);
    expect_mostly_the_first(seeds_of);
    EXPECT_EQ(others, (std::set{1.0, 0.25, 0.125}));
    EXPECT_GT(with_a_rare_sign, 10);
    EXPECT_GT(constant, 10);
  }
}

// From products that are just normal down to those of which none is left.
TEST(Ingredient, TinyProductsAreAboutAndBelowTheSmallestNormalNumber) {
  for (DType dtype : kDTypes) {
    const double normal = std::ldexp(1.0, format_of(dtype).min_exponent);
    const double smallest = std::ldexp(normal, 1 - format_of(dtype).precision);
    int normals = 0, subnormals = 0, zeros = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      const Data data = normal_with({Ingredient::kTinyProducts});
      const auto a = draw(data, seed, 0, 2, dtype), b = draw(data, seed, 1, 2, dtype);
      std::vector<double> products;
      for (size_t i = 0; i < a.size(); ++i) products.push_back(std::abs(a[i] * b[i]));
      EXPECT_LT(largest_of(products), 6 * 6 * 16 * normal);
      normals += share(products, [&](double x) { return x >= normal; }) > 0.3;
      subnormals += share(products, [&](double x) { return x >= smallest && x < normal; }) > 0.5;
      zeros += share(products, [&](double x) { return x <= smallest / 2; }) == 1;
    }
    EXPECT_GT(normals, 1);
    EXPECT_GT(subnormals, 10);
    EXPECT_GT(zeros, 1);
  }
}

// A case line keeps its values, whatever else may be drawn.
uint64_t hash_of(std::span<const Ingredient> ingredients) {
  uint64_t hash = test::hash_of("");
  for (Ingredient ingredient : ingredients) {
    const Drawing drawing(normal_with({ingredient}), 42, {.tensor = 1, .tensors = 2, .shape = {4, 50}});
    for (int64_t i = 0; i < 200; ++i)
      hash = test::hash_of(fmt::format("{:x}", std::bit_cast<uint64_t>(drawing(i))), hash);
  }
  return hash;
}

TEST(Ingredient, GoldenValues) {
  const std::span<const Ingredient> all = all_ingredients();
  EXPECT_EQ(hash_of(all.first(9)), 17783372333636845723u);
  EXPECT_EQ(hash_of(all.subspan(9)), 17292124552554285857u);
}

}  // namespace
}  // namespace assay
