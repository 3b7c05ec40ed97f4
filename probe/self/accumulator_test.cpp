// SPDX-License-Identifier: Apache-2.0
#include "probe/accumulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/core/dtype.h"
#include "probe/contradictions.h"
#include "probe/replay.h"
#include "probe/self/known.h"

namespace assay {
namespace {

using test::known;

TEST(Accumulator, FindsWidthAndRounding) {
  for (int bits : {8, 11, 16, 23, 24, 53}) {
    for (RoundingMode mode : {RoundingMode::kNearestEven, RoundingMode::kTowardZero,
                              RoundingMode::kNearestAway, RoundingMode::kUp, RoundingMode::kDown}) {
      if (bits == 53 && mode != RoundingMode::kNearestEven) continue;  // all that is simulated
      Reach reach = known(sequential({16}), {.bits = bits, .mode = mode});
      reach.huge = 70;
      const Accumulator found = find_accumulator(reach, sequential({16}));
      EXPECT_EQ(found.bits, bits);
      EXPECT_EQ(found.mode, mode) << name_of(mode) << testing::PrintToString(found.unclear);
      EXPECT_EQ(found.fraction, std::nullopt);
    }
  }
}

// The first additions keep other bits than the last ones, as where partial sums are promoted. What
// the last ones lose is lost to all.
TEST(Accumulator, AsksAdditionsAtAllDepths) {
  for (const auto& [first, last] : {std::pair(14, 24), std::pair(24, 14)}) {
    Reach reach = known(sequential({16}), {});
    reach.sums = [first = first, last = last](const Factors& factors) {
      std::vector<double> values;
      for (int64_t s = 0; s < factors.sums(); ++s) {
        double sum = 0;
        for (int64_t k = 0; k < factors.terms; ++k)
          sum = rounded(sum + factors.a[factors.at(s, k)] * factors.b[factors.at(s, k)],
                        {.bits = k < 8 ? first : last});
        values.push_back(sum);
      }
      return values;
    };
    const Accumulator found = find_accumulator(reach, sequential({16}));
    EXPECT_EQ(found.bits, 14);
    const auto says = testing::Contains(testing::HasSubstr("14, 24, 24 bits from the first addition"));
    EXPECT_EQ(testing::Matches(says)(found.unclear), first < last);
  }
}

// Ties of three terms need 2^t + 1 in one of them.
TEST(Accumulator, FindsTiesOfThreeTermsOrSaysThatItCannot) {
  const SumTree tree = sequential({3});
  EXPECT_EQ(find_accumulator(known(tree, {}), tree).mode, RoundingMode::kNearestEven);
  EXPECT_EQ(find_accumulator(known(tree, {.mode = RoundingMode::kNearestAway}), tree).mode,
            RoundingMode::kNearestAway);
  const Accumulator narrow = find_accumulator(known(tree, {}, 8), tree);
  EXPECT_EQ(narrow.mode, std::nullopt);
  EXPECT_THAT(narrow.unclear, testing::Contains(testing::HasSubstr("do not tell ties")));
}

TEST(Accumulator, FindsHowFusedGroupsAreCut) {
  for (int64_t group : {4, 8, 16}) {
    for (int fraction = 23; fraction <= 27; ++fraction) {
      const SumTree tree = fused_chain({64}, group);
      const Accumulator found = find_accumulator(known(tree, {.fraction = fraction}, 11), tree);
      EXPECT_EQ(found.fraction, fraction);
      EXPECT_EQ(found.bits, 24);
      EXPECT_EQ(found.mode, RoundingMode::kTowardZero);
    }
  }
}

TEST(Accumulator, FindsFusedProducts) {
  const SumTree tree = sequential({4});
  const Accumulator separate = find_accumulator(known(tree, {}), tree);
  EXPECT_THAT(separate.is_fused, testing::ElementsAre(false, false, false, false));
  const std::vector<bool> chain = {false, true, true, true};
  EXPECT_EQ(find_accumulator(known(tree, {.is_fused = chain}), tree).is_fused, chain);
  EXPECT_TRUE(
      find_accumulator(known(tree, {.is_fused = chain}, 24, FirstFactor::kOne), tree).is_fused.empty());
}

// Sums of factors that are rounded first.
Reach with_factors(const SumTree& tree, int bits, RoundingMode mode, bool lacks_low_product = false) {
  Reach reach = known(tree, {});
  reach.sums = [tree, bits, mode, lacks_low_product](const Factors& factors) {
    const Adder to_factor{.bits = bits, .mode = mode}, to_part{.bits = 8};
    std::vector<double> values;
    for (int64_t s = 0; s < factors.sums(); ++s) {
      std::vector<double> a, b;
      for (int64_t k = 0; k < factors.terms; ++k) {
        a.push_back(rounded(factors.a[factors.at(s, k)], to_factor));
        b.push_back(rounded(factors.b[factors.at(s, k)], to_factor));
        if (!lacks_low_product) continue;
        const double low = (a.back() - rounded(a.back(), to_part)) * (b.back() - rounded(b.back(), to_part));
        a.back() = a.back() * b.back() - low;
        b.back() = 1;
      }
      values.push_back(simulate(tree, a, b, {}));
    }
    return values;
  };
  return reach;
}

TEST(Accumulator, FindsRoundedFactors) {
  const SumTree tree = sequential({8});
  for (int bits : {8, 11, 16}) {
    for (RoundingMode mode :
         {RoundingMode::kNearestEven, RoundingMode::kTowardZero, RoundingMode::kNearestAway}) {
      const Accumulator found = find_accumulator(with_factors(tree, bits, mode), tree);
      ASSERT_TRUE(found.factors);
      EXPECT_EQ(found.factors->bits, bits);
      EXPECT_EQ(found.factors->mode, mode);
      EXPECT_FALSE(found.factors->lacks_low_product);
    }
  }
  const Accumulator split = find_accumulator(with_factors(tree, 16, RoundingMode::kNearestEven, true), tree);
  EXPECT_TRUE(split.factors.value().lacks_low_product);
}

TEST(Accumulator, FindsFlushedSubnormals) {
  const SumTree tree = sequential({8});
  EXPECT_EQ(find_accumulator(known(tree, {}), tree).keeps_subnormals, true);
  EXPECT_EQ(find_accumulator(known(tree, {.keeps_subnormals = false}), tree).keeps_subnormals, false);
}

TEST(Replay, ReproducesWhatWasFound) {
  const SumTree trees[] = {sequential({64}), pairwise({64}), pairwise_of(test::strided_lanes(64, 8)),
                           fused_chain({64}, 8)};
  for (const SumTree& tree : trees) {
    const bool is_fused = widest_node(tree) > 2;
    const Reach reach = is_fused ? known(tree, {.fraction = 25}, 11) : known(tree, {});
    const Accumulator found = find_accumulator(reach, tree);
    const Replay proof = replay(reach, tree, found.adder(), DType::kF32, 1000, 1);
    EXPECT_EQ(proof.reproduced, 1000) << proof.first;
  }
}

TEST(Replay, SeesAnotherTreeAndAnotherWidth) {
  const Reach reach = known(sequential({64}), {});
  EXPECT_LT(replay(reach, pairwise({64}), {}, DType::kF32, 1000, 1).reproduced, 500);
  EXPECT_LT(replay(reach, sequential({64}), {.bits = 23}, DType::kF32, 1000, 1).reproduced, 500);
  EXPECT_LT(
      replay(reach, sequential({64}), {.mode = RoundingMode::kTowardZero}, DType::kF32, 1000, 1).reproduced,
      500);
}

TEST(Replay, TakesSumsBackWhereValuesAreInexact) {
  for (const SumTree& tree : {sequential({64}), fused_chain({64}, 16)}) {
    const bool is_fused = widest_node(tree) > 2;
    const Adder adder = is_fused ? Adder{.fraction = 25} : Adder{};
    Reach reach = known(tree, adder, is_fused ? 11 : 24);
    reach.is_exact = false;
    EXPECT_EQ(replay(reach, tree, adder, DType::kF32, 1000, 1).reproduced, 1000);
    Adder wrong = adder;
    wrong.bits = 22;
    EXPECT_LT(replay(reach, tree, wrong, DType::kF32, 1000, 1).reproduced, 700);
  }
  Reach hidden = known(pairwise({64}), {});
  hidden.is_exact = false;
  EXPECT_THAT(replay(hidden, pairwise({64}), {}, DType::kF32, 10, 1).why_not,
              testing::HasSubstr("are hidden"));
}

TEST(Contradictions, NameEachBrokenPromise) {
  const Sum declared{.order = Sum::Order::kContiguous};
  const SumTree tree = sequential({64});
  const auto of = [&](const Reach& reach) {
    return contradictions(declared, tree, find_accumulator(reach, tree), 24);
  };
  EXPECT_THAT(of(known(tree, {})), testing::IsEmpty());
  EXPECT_THAT(of(known(tree, {.bits = 8})),
              testing::Contains("the sum is kept in 8 bits; the recipe declares f32, which has 24"));
  EXPECT_THAT(of(known(tree, {.mode = RoundingMode::kTowardZero})),
              testing::ElementsAre("additions are rounded towards zero; the recipe declares to nearest"));
  EXPECT_THAT(of(with_factors(tree, 8, RoundingMode::kNearestEven)),
              testing::ElementsAre("factors keep 8 bits; the recipe declares no rounding: 24 bits"));
  const SumTree strided = pairwise_of(test::strided_lanes(128, 2));
  EXPECT_THAT(
      contradictions(declared, strided, {}, 24),
      testing::ElementsAre("terms that are no neighbours are added; the recipe declares neighbours only"));
}

TEST(Contradictions, NameFusedGroupsThatAreCutEarly) {
  const SumTree tree = fused_chain({64}, 16);
  const Accumulator found = find_accumulator(known(tree, {.fraction = 13}, 8), tree);
  EXPECT_THAT(contradictions({}, tree, found, 8),
              testing::Contains("fused groups are cut after 13 bits; the recipe declares none"));
  EXPECT_THAT(contradictions({.truncates = true}, tree,
                             find_accumulator(known(tree, {.fraction = 25}, 11), tree), 11),
              testing::IsEmpty());
}

TEST(Contradictions, NameLongSumsInF32) {
  const Sum declared{.group = 32};
  const Reach of_all = known(sequential({256}), {});
  EXPECT_THAT(contradictions_of_groups(declared, of_all),
              testing::ElementsAre(
                  "256 terms are added in f32 around two of them; the recipe declares groups of 32"));
  Reach of_groups = of_all;
  of_groups.sums = [](const Factors& factors) {
    std::vector<double> values;
    for (int64_t s = 0; s < factors.sums(); ++s) {
      double sum = 0;
      for (int64_t first = 0; first < factors.terms; first += 32) {
        const auto at = factors.at(s, first);
        sum += simulate(sequential({32}), std::span(factors.a).subspan(at, 32),
                        std::span(factors.b).subspan(at, 32), {});
      }
      values.push_back(sum);
    }
    return values;
  };
  EXPECT_THAT(contradictions_of_groups(declared, of_groups), testing::IsEmpty());
  EXPECT_THAT(contradictions_of_groups({}, of_all), testing::IsEmpty());
}

}  // namespace
}  // namespace assay
