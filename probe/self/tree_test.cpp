// SPDX-License-Identifier: Apache-2.0
#include "probe/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/core/error.h"
#include "probe/describe.h"
#include "probe/self/known.h"
#include "properties/self/marks.h"

namespace assay {
namespace {

using test::fused_chunks;
using test::known;
using test::strided_lanes;

struct Known {
  std::string shape;
  SumTree tree;
  Adder adder = {};
  int bits = 24;
};

Adder tensor_core(int fraction) {
  return {.bits = 24, .mode = RoundingMode::kNearestEven, .fraction = fraction};
}

std::vector<Known> known_trees(int64_t n) {
  std::vector<Known> all = {
      {"sequential", sequential({n})},
      {"pairwise", pairwise({n})},
      {"4 strided lanes, each sequential; then pairwise", pairwise_of(strided_lanes(n, 4))},
      {"8 strided lanes, each sequential; then sequential", sequential_of(strided_lanes(n, 8))},
      {"2 chunks, each sequential; then sequential",
       sequential_of({sequential({n / 2}), sequential({n / 2, n / 2})})},
  };
  for (int64_t group : {4, 8, 16}) {
    for (int fraction = 23; fraction <= 27; ++fraction) {
      all.push_back({fmt::format("groups of {} terms, each added at once to the sum so far", group),
                     fused_chain({n}, group), tensor_core(fraction), 11});
    }
    if (n / 4 == group) continue;
    all.push_back(
        {fmt::format(
             "4 chunks, each groups of {} terms, each added at once to the sum so far; then sequential",
             group),
         sequential_of(fused_chunks(n, 4, group)), tensor_core(25), 11});
  }
  return all;
}

class KnownTrees : public testing::TestWithParam<int64_t> {};

TEST_P(KnownTrees, AreRecoveredAndNamed) {
  if (GetParam() > 96) {
    NOT_SANITIZED("smaller trees are");
  }
  for (const auto& [shape, tree, adder, bits] : known_trees(GetParam())) {
    const Reach reach = known(tree, adder, bits);
    const Recovered recovered = recover_tree(reach.terms, common_leaves_by_masks(reach));
    ASSERT_TRUE(recovered.tree) << shape << ": " << recovered.why_not;
    EXPECT_EQ(*recovered.tree, tree) << shape << " was recovered as " << line_of_tree(*recovered.tree);
    EXPECT_EQ(shape_of_tree(*recovered.tree), shape);
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, KnownTrees, testing::Values(64, 96, 1024));

TEST(Recover, FindsAnyTree) {
  const CounterRandom random(7, 0);
  for (uint64_t draw = 0; draw < 200; ++draw) {
    std::vector<SumTree> parts;
    const int64_t count = 1 + static_cast<int64_t>(random.bits(draw) % 40);
    for (int64_t k = 0; k < count; ++k) parts.push_back(leaf(k));
    for (uint64_t step = 0; parts.size() > 1; ++step) {
      const size_t wanted = 2 + random.bits(draw, 1000 + step) % 4, size = std::min(wanted, parts.size());
      std::vector<SumTree> joined;
      for (size_t i = 0; i < size; ++i) {
        const auto at = static_cast<std::ptrdiff_t>(random.bits(draw, 2000 + 8 * step + i) % parts.size());
        joined.push_back(parts[static_cast<size_t>(at)]);
        parts.erase(parts.begin() + at);
      }
      parts.push_back(node(std::move(joined)));
    }
    const Recovered recovered = recover_tree(
        count, [&](const std::vector<Pair>& pairs) { return common_leaves(parts[0], pairs); }, draw);
    EXPECT_EQ(recovered.tree, parts[0]) << line_of_tree(parts[0]);
  }
}

TEST(Recover, CountsAFewUnitsAtATime) {
  Reach reach = known(pairwise({100}), {});
  reach.units = 8;
  const Recovered recovered = recover_tree(100, common_leaves_by_masks(reach));
  EXPECT_EQ(recovered.tree, pairwise({100}));
}

TEST(Recover, SaysThatNoTreeExplainsSumsInTwoOrders) {
  const SumTree even = sequential({32}), odd = pairwise({32});
  const Reach of_even = known(even, {}), of_odd = known(odd, {});
  Reach mixed = of_even;
  mixed.sums = [&](const Factors& factors) {
    std::vector<double> values = of_even.sums(factors), others = of_odd.sums(factors);
    for (size_t s = 1; s < values.size(); s += 2) values[s] = others[s];
    return values;
  };
  const Recovered recovered = recover_tree(32, common_leaves_by_masks(mixed));
  EXPECT_FALSE(recovered.tree);
  EXPECT_THAT(recovered.why_not, testing::HasSubstr("meet in a sum of"));
}

TEST(Recover, RefusesCountsThatAreNone) {
  Reach broken = known(sequential({8}), {});
  broken.sums = [](const Factors& factors) {
    return std::vector<double>(static_cast<size_t>(factors.sums()), 2.5);
  };
  EXPECT_THROW(recover_tree(8, common_leaves_by_masks(broken)), Error);
}

TEST(Recover, TakesNoLostUnitsForAnAddition) {
  const CommonLeaves lost = [](const std::vector<Pair>& pairs) {
    return std::vector<int64_t>(pairs.size(), 64);
  };
  const Recovered recovered = recover_tree(64, lost);
  EXPECT_FALSE(recovered.tree);
  EXPECT_EQ(recovered.why_not, "64 terms would be added at once: what follows the sum hides its units");
}

TEST(LineOfTree, FoldsRuns) {
  EXPECT_EQ(line_of_tree(leaf(0)), "0");
  EXPECT_EQ(line_of_tree(sequential({64})), "seq(0..63)");
  EXPECT_EQ(line_of_tree(sequential_of({leaf(2), leaf(0), leaf(1)})), "seq(0 2 1)");
  EXPECT_EQ(line_of_tree(fused_chain({8}, 8)), "{0..7}");
  EXPECT_EQ(line_of_tree(fused_chain({32}, 16)), "seq({0..15} {16..31})");
  EXPECT_EQ(line_of_tree(fused_chain({160}, 16)), "seq({0..15} {16..31} ... {144..159})");
  EXPECT_EQ(line_of_tree(pairwise({4})), "(seq(0 1) seq(2 3))");
  EXPECT_EQ(line_of_tree(sequential_of(test::strided_lanes(64, 8))),
            "seq(seq(0..56 by 8) seq(1..57 by 8) ... seq(7..63 by 8))");
  EXPECT_EQ(line_of_tree(pairwise_of(test::strided_lanes(32, 2))), "(seq(0..30 by 2) seq(1..31 by 2))");
}

TEST(ShapeOfTree, SaysTheDepthOfAnyOther) {
  EXPECT_EQ(shape_of_tree(sequential_of({leaf(1), leaf(0), leaf(2), leaf(3)})), "sequential");
  EXPECT_EQ(shape_of_tree(sequential_of({leaf(2), leaf(0), leaf(1), leaf(3)})), "a tree of depth 3");
  EXPECT_EQ(shape_of_tree(leaf(0)), "a single term");
}

TEST(PictureOfTree, HasAnEntryForEachTerm) {
  const std::string picture = picture_of_tree(fused_chain({16}, 4), "a sum");
  size_t circles = 0;
  for (size_t at = 0; (at = picture.find("<circle", at)) != std::string::npos; ++at) ++circles;
  EXPECT_EQ(circles, 16u);
  EXPECT_THAT(picture, testing::HasSubstr("class='fused'"));
}

}  // namespace
}  // namespace assay
