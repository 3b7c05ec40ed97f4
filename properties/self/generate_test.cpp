// SPDX-License-Identifier: Apache-2.0
#include "properties/core/generate.h"

#include <map>
#include <set>

#include "properties/self/support.h"

namespace assay {
namespace {

constexpr int kCases = 1000;

class Generated : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  const Path& path() const { return op().path("cpu"); }
  std::vector<Case> cases(uint64_t seed) const {
    const rc::Gen<Case> generator = arbitrary_case(op(), path());
    rc::Random random(seed);
    std::vector<Case> drawn;
    for (int i = 0; i < kCases; ++i) drawn.push_back(generator(random.split(), rc::kNominalSize).value());
    return drawn;
  }
};
INSTANTIATE_TEST_SUITE_P(Ops, Generated, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST_P(Generated, CasesAreLegalAndSmall) {
  for (const Case& c : cases(1)) {
    require_dims(op(), c.dims);
    EXPECT_EQ(c.op, op().name);
    EXPECT_EQ(c.path, "cpu");
    EXPECT_NE(std::ranges::count(path().dtypes, c.dtype), 0);
    EXPECT_TRUE(is_legal(c.layout, op(), c.dims)) << c.to_string();
    for (const auto* tensors : {&op().inputs, &op().outputs}) {
      for (const TensorInfo& tensor : *tensors) {
        EXPECT_LE(element_count(shape_of(tensor, c.dims)), kFuzzElements);
      }
    }
    EXPECT_EQ(parse_case(c.to_string()), c);
  }
}

// Nothing that can be drawn is left out, and nothing crowds out the rest.
TEST_P(Generated, CasesCoverEveryChoice) {
  std::map<std::string_view, int> seen;
  std::set<int64_t> taps, channels, times;
  std::set<uint64_t> seeds;
  int empty = 0;
  const int t_below_w = static_cast<int>(
      std::ranges::count_if(cases(2), [](const Case& c) { return c.dims["t"] < c.dims["w"]; }));
  for (const Case& c : cases(2)) {
    for (std::string_view name : {name_of(c.dtype), name_of(c.data), name_of(c.layout), name_of(c.state)})
      ++seen[name];
    taps.insert(c.dims["w"]);
    channels.insert(c.dims["d"]);
    times.insert(c.dims["t"]);
    seeds.insert(c.seed);
    if (c.dims["b"] * c.dims["t"] * c.dims["d"] == 0) ++empty;
  }
  for (DType dtype : path().dtypes) EXPECT_GT(seen[name_of(dtype)], kCases / 10) << name_of(dtype);
  for (Regime regime : all_regimes()) EXPECT_GT(seen[name_of(regime)], kCases / 40) << name_of(regime);
  for (Layout layout : all_layouts()) EXPECT_GT(seen[name_of(layout)], kCases / 10) << name_of(layout);
  for (State state : all_states()) EXPECT_GT(seen[name_of(state)], kCases / 4) << name_of(state);
  EXPECT_EQ(taps.size(), 8u);
  for (const DimInfo& dim : op().dims) {
    const auto& sizes = dim.key == "d" ? channels : times;
    if (dim.key != "d" && dim.key != "t") continue;
    for (int64_t edge : dim.edges) {
      for (int64_t size : {edge - 1, edge, edge + 1})
        EXPECT_TRUE(sizes.contains(size)) << dim.key << "=" << size;
    }
  }
  EXPECT_GT(t_below_w, kCases / 40);
  EXPECT_GT(empty, 0);
  EXPECT_LT(empty, kCases / 4);
  EXPECT_GT(seeds.size(), kCases * 9u / 10);
}

TEST_P(Generated, SeedsGiveTheSameCasesEverywhere) {
  uint64_t hash = test::hash_of("");
  for (const Case& c : cases(0)) hash = test::hash_of(c.to_string(), hash);
  EXPECT_EQ(hash, op().name == "dynamic_conv" ? 16205073750015696845u : 8994233623692270201u);
  EXPECT_NE(cases(0), cases(1));
}

TEST_P(Generated, ShrinkingEndsAtTheSimplestCase) {
  const rc::Gen<Case> generator = arbitrary_case(op(), path());
  rc::Random random(3);
  for (int i = 0; i < 20; ++i) {
    rc::Shrinkable<Case> current = generator(random.split(), rc::kNominalSize);
    for (auto shrinks = current.shrinks();;) {
      const auto next = shrinks.next();
      if (!next) break;
      if (next->value() == current.value()) continue;
      current = *next;
      shrinks = current.shrinks();
    }
    Case simplest = parse_case(fmt::format("{}/cpu/f32", op().name));
    for (const DimInfo& dim : op().dims) {
      const bool was_drawn_empty = current.value().dims[dim.key] == dim.min;
      simplest.dims.set(std::string(dim.key), was_drawn_empty ? dim.min : std::max<int64_t>(dim.min, 1));
    }
    EXPECT_EQ(current.value().to_string(), simplest.to_string());
  }
}

TEST(IsLegal, AsksForAShortOrLongOutermostDimension) {
  const Op& op = registry().op("dynamic_conv");
  const auto legal = [&](Layout layout, int64_t b) {
    return is_legal(layout, op, {{"b", b}, {"t", 4}, {"d", 4}, {"w", 4}});
  };
  for (Layout layout : {Layout::kDense, Layout::kStrided, Layout::kMisaligned, Layout::kTransposed}) {
    for (int64_t b : {0, 1, 2, 9}) EXPECT_TRUE(legal(layout, b));
  }
  EXPECT_FALSE(legal(Layout::kBroadcast, 1));
  EXPECT_TRUE(legal(Layout::kBroadcast, 2));
  EXPECT_FALSE(legal(Layout::kInflated, 1));
  EXPECT_TRUE(legal(Layout::kInflated, 2));
  EXPECT_FALSE(legal(Layout::kInflated, 1000));
}

}  // namespace
}  // namespace assay
