// SPDX-License-Identifier: Apache-2.0
// The bound that follows from a tree: nothing exceeds it, and some sums reach it.
#include "probe/bound.h"

#include <gtest/gtest.h>

#include <cmath>

#include "probe/replay.h"
#include "probe/self/known.h"

namespace assay {
namespace {

using test::fused_chunks;
using test::known;
using test::strided_lanes;

struct Known {
  const char* name;
  SumTree tree;
  Adder adder;
};

std::vector<Known> known_sums() {
  const Adder nearest{}, cut{.mode = RoundingMode::kTowardZero}, of_bf16{.bits = 8},
      group{.mode = RoundingMode::kTowardZero, .fraction = 25};
  const Adder multiply_adds{.is_fused = std::vector<bool>(64, true)};
  return {{"sequential", sequential({64}), nearest},
          {"sequential_cut", sequential({64}), cut},
          {"sequential_of_bf16", sequential({64}), of_bf16},
          {"multiply_adds", sequential({64}), multiply_adds},
          {"pairwise", pairwise({64}), nearest},
          {"lanes", pairwise_of(strided_lanes(64, 8)), nearest},
          {"groups", fused_chain({64}, 8), group},
          {"chunks_of_groups", sequential_of(fused_chunks(64, 2, 16)), group}};
}

class Bounds : public testing::TestWithParam<Known> {};

TEST_P(Bounds, HoldForAThousandDraws) {
  const auto& [name, tree, adder] = GetParam();
  const int bits = adder.fraction ? 11 : 24;
  const Replay proof = replay(known(tree, adder, bits), tree, adder, DType::kF32, 1000, 0);
  EXPECT_EQ(proof.reproduced, 1000) << proof.first;
  EXPECT_GT(proof.largest_error, 0);
  EXPECT_LE(proof.largest_error, bound_of_tree(tree, adder));
}

INSTANTIATE_TEST_SUITE_P(All, Bounds, testing::ValuesIn(known_sums()),
                         [](const auto& info) { return info.param.name; });

// The error over the sum of sizes where the deepest term is 1 and each other one is `small`.
double error_with_small_terms(const SumTree& tree, int64_t deepest, double small, const Adder& adder) {
  Factors factors(1, leaf_count(tree));
  for (int64_t k = 0; k < factors.terms; ++k) factors.b[factors.at(0, k)] = k == deepest ? 1 : small;
  return largest_error(factors, simulated(factors, tree, adder));
}

// A chain in f32 loses each u that is added to 1: a tie. A depth of one less is no bound.
TEST(Bound, IsReachedByAChain) {
  constexpr int64_t kTerms = 64;
  const SumTree chain = sequential({kTerms}), shallower = sequential({kTerms - 1});
  const Adder nearest{.is_fused = std::vector<bool>(kTerms, true)};
  const double lost = error_with_small_terms(chain, 0, 0x1p-24, nearest);
  EXPECT_LE(lost, bound_of_tree(chain, nearest));
  EXPECT_GT(lost, bound_of_tree(shallower, nearest)) << "a wrong depth has to show";
  const Adder cut{.mode = RoundingMode::kTowardZero, .is_fused = std::vector<bool>(kTerms, true)};
  const double lost_by_cuts = error_with_small_terms(chain, 0, 0x1.fffp-24, cut);
  EXPECT_LE(lost_by_cuts, bound_of_tree(chain, cut));
  EXPECT_GT(lost_by_cuts, bound_of_tree(shallower, cut));
  EXPECT_GT(lost_by_cuts, bound_of_tree(chain, nearest)) << "a wrong rounding has to show";
}

// What a group of 8 cuts off 7 terms is more than what a group of 4 may.
TEST(Bound, IsThatOfTheGroup) {
  const Adder group{.mode = RoundingMode::kTowardZero, .fraction = 12};
  const double lost = error_with_small_terms(fused_chain({8}, 8), 0, 0x1.ffcp-13, group);
  EXPECT_LE(lost, bound_of_tree(fused_chain({8}, 8), group));
  EXPECT_GT(lost, bound_of_tree(fused_chain({4}, 4), group));
}

TEST(Bound, IsThatOfTheDepth) {
  const Adder adder{};
  const double unit = 0x1p-24;
  EXPECT_NEAR(bound_of_tree(sequential({1024}), adder), 1024 * unit, 1024 * 1024 * unit * unit);
  EXPECT_NEAR(bound_of_tree(pairwise({1024}), adder), 11 * unit, 121 * unit * unit);
  EXPECT_NEAR(bound_of_tree(sequential({1024}), {.bits = 53}), 1024 * 0x1p-53, 0x1p-80);
}

}  // namespace
}  // namespace assay
