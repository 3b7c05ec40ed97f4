// SPDX-License-Identifier: Apache-2.0
#include "properties/core/generate.h"

#include <map>
#include <set>

#include "kernels/mhc_post/mhc_post.h"
#include "properties/core/problem.h"
#include "properties/self/edge_cases.h"
#include "properties/self/support.h"

namespace assay {
namespace {

constexpr int kCases = 1000;

std::vector<Case> cases_of(const Op& op, const Path& path, uint64_t seed) {
  const rc::Gen<Case> generator = arbitrary_case(op, path);
  rc::Random random(seed);
  std::vector<Case> drawn;
  for (int i = 0; i < kCases; ++i) drawn.push_back(generator(random.split(), rc::kNominalSize).value());
  return drawn;
}

class Generated : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  const Path& path() const { return op().paths.front(); }
  std::vector<Case> cases(uint64_t seed) const { return cases_of(op(), path(), seed); }
};
INSTANTIATE_TEST_SUITE_P(Ops, Generated, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

TEST_P(Generated, CasesAreLegalAndSmall) {
  for (const Case& c : cases(1)) {
    require_dims(op(), c.dims);
    EXPECT_EQ(c.op, op().name);
    EXPECT_EQ(c.path, path().name);
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

// If a tensor has a size that is no dimension, all dimensions may have to be 0.
TEST_P(Generated, CasesEndAtAnyLimit) {
  for (const int64_t most : {1, 2, 3, 7}) {
    const rc::Gen<Case> generator = arbitrary_case(op(), path(), most);
    rc::Random random(1);
    for (int i = 0; i < 200; ++i)
      require_dims(op(), generator(random.split(), rc::kNominalSize).value().dims);
  }
}

// Everything that can be drawn is drawn, and nothing crowds out the rest.
TEST_P(Generated, CasesCoverEveryChoice) {
  std::map<std::string_view, int> seen;
  std::set<uint64_t> seeds;
  int empty = 0;
  for (const Case& c : cases(2)) {
    for (std::string_view name : {name_of(c.dtype), name_of(c.data.regime()), name_of(c.layout)})
      ++seen[name];
    for (Ingredient ingredient : all_ingredients()) seen[name_of(ingredient)] += c.data.has(ingredient);
    if (c.data.is_plain()) ++seen["plain"];
    for (const Step& step : c.state.steps) ++seen[name_of(step.kind)];
    if (c.state.steps.empty()) ++seen["first_call"];
    seeds.insert(c.seed);
    if (test::is_empty(op(), c.dims)) ++empty;
  }
  const auto share = static_cast<int>(2 * path().dtypes.size());
  for (DType dtype : path().dtypes) EXPECT_GT(seen[name_of(dtype)], kCases / share) << name_of(dtype);
  for (Regime regime : all_regimes()) EXPECT_GT(seen[name_of(regime)], kCases / 40) << name_of(regime);
  for (Ingredient ingredient : all_ingredients())
    EXPECT_GT(seen[name_of(ingredient)], kCases / 40) << name_of(ingredient);
  EXPECT_GT(seen["plain"], kCases / 2);
  EXPECT_GT(seen["first_call"], kCases / 4);
  for (StepKind step : all_steps()) {
    const bool is_tuning =
        step == StepKind::kForced || step == StepKind::kRetuned || step == StepKind::kCacheLoaded;
    const bool is_of_gpus = step == StepKind::kOtherStream || step == StepKind::kGraphReplay;
    const bool is_legal =
        (!is_tuning || !path().tunables.empty()) && (!is_of_gpus || path().device == DeviceKind::kCuda);
    if (is_legal) {
      EXPECT_GT(seen[name_of(step)], kCases / 40) << name_of(step);
    } else {
      EXPECT_EQ(seen[name_of(step)], 0) << name_of(step);
    }
  }
  for (Layout layout : all_layouts()) {
    if (!is_legal(layout, op(), test::small_dims(op(), 2))) continue;
    EXPECT_GT(seen[name_of(layout)], kCases / 10) << name_of(layout);
  }
  const bool may_be_empty = std::ranges::any_of(op().dims, [](const DimInfo& dim) { return dim.min == 0; });
  EXPECT_EQ(empty > 0, may_be_empty);
  EXPECT_LT(empty, kCases / 4);
  EXPECT_GT(seeds.size(), kCases * 9u / 10);
}

TEST_P(Generated, SizesCoverEveryEdgeAndEveryShortRange) {
  std::map<std::string, std::set<int64_t>> sizes;
  for (const Case& c : cases(2)) {
    for (const auto& [key, size] : c.dims.values()) sizes[key].insert(size);
  }
  Dims smallest;
  for (const DimInfo& dim : op().dims) smallest.set(std::string(dim.key), std::max<int64_t>(dim.min, 1));
  for (const DimInfo& dim : op().dims) {
    const std::set<int64_t>& drawn = sizes[std::string(dim.key)];
    for (int64_t size : test::boundary_sizes(dim)) {
      Dims alone = smallest;
      alone.set(std::string(dim.key), size);
      if (largest_tensor(op(), alone) > kFuzzElements) continue;
      EXPECT_TRUE(drawn.contains(size)) << dim.key << "=" << size;
    }
    if (!is_short(dim)) continue;
    for (int64_t size = dim.min; size <= dim.max; ++size) {
      EXPECT_TRUE(drawn.contains(size)) << dim.key << "=" << size;
    }
  }
}

// Of two dimensions, sometimes either is the longer one: fewer positions than taps, more streams
// than channels.
TEST_P(Generated, SizesComeInEveryOrder) {
  const std::vector<Case> drawn = cases(2);
  for (const DimInfo& one : op().dims) {
    for (const DimInfo& other : op().dims) {
      if (one.key == other.key || one.min > 1 || other.min > 1) continue;
      if (other.max == 1) continue;  // it only says whether a tensor is present
      const auto less = std::ranges::count_if(
          drawn, [&](const Case& c) { return c.dims.at(one.key) < c.dims.at(other.key); });
      EXPECT_GT(less, kCases / 40) << one.key << " < " << other.key;
    }
  }
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
    Case simplest{.op = std::string(op().name),
                  .path = std::string(path().name),
                  .dtype = path().dtypes.front(),
                  .dims = {}};
    for (const DimInfo& dim : op().dims) {
      const bool was_drawn_empty = current.value().dims.at(dim.key) == dim.min;
      simplest.dims.set(std::string(dim.key), was_drawn_empty ? dim.min : std::max<int64_t>(dim.min, 1));
    }
    EXPECT_EQ(current.value().to_string(), simplest.to_string());
  }
}

// An op of its own, so that what is drawn changes with the generator and not with an op.
constexpr Dim kB{0, "b"}, kT{1, "t"}, kS{2, "s"};
const Path& made_up_path() {
  static const Path path{.name = "cpu",
                         .device = DeviceKind::kCpu,
                         .dtypes = {DType::kF32, DType::kF16, DType::kBF16},
                         .deterministic = true,
                         .recipe = nullptr,
                         .unsupported = {},
                         .run = {},
                         .summary = "",
                         .edges = {{{kB, kT}, 3000}, {{kB, kT, kT}, 100'000, true}, {{kB, kT}, 1 << 19}}};
  return path;
}
const Op& made_up_op() {
  static const Op op{.name = "made_up",
                     .formula = "",
                     .dims = {{kB, 0, int64_t{1} << 40, {}, ""},
                              {kT, 0, int64_t{1} << 40, {16, 256}, ""},
                              {kS, 1, 16, {}, ""}},
                     .inputs = {{{0, "x"}, "b t", {}, ""}, {{1, "mix"}, "b t s", DType::kF32, ""}},
                     .outputs = {{{0, "out"}, "b t s", {}, ""}},
                     .cost = nullptr,
                     .paths = {}};
  return op;
}

TEST(GeneratedCases, LieBesideMultiplesOfAnEdgeAndAFewElementsPastIt) {
  std::set<int64_t> sizes;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    for (const Case& c : cases_of(made_up_op(), made_up_path(), seed)) sizes.insert(c.dims[kT]);
  }
  for (int64_t size : {18, 25, 31, 32, 33, 47, 48, 49, 258, 265, 511, 512, 513, 767, 768, 769})
    EXPECT_TRUE(sizes.contains(size)) << size;
}

// One element of the free dimension before, at and after it, by either dimension; and twice, and
// three times as far.
TEST(GeneratedCases, LieAtProductsOfDimensions) {
  std::map<std::pair<int64_t, int64_t>, int> met;  // by multiple and distance
  int long_b = 0, long_t = 0, in_bytes = 0;
  for (const Case& c : cases_of(made_up_op(), made_up_path(), 0)) {
    const int64_t b = c.dims[kB], t = c.dims[kT];
    for (int64_t times : {1, 2, 3}) {
      for (int64_t more : {-1, 0, 1, 16}) {
        if (b > 0 && t == 3000 * times / b + more) ++met[{times, more}], ++long_t;
        if (t > 0 && b == 3000 * times / t + more) ++met[{times, more}], ++long_b;
      }
    }
    const int64_t bytes = b * t * t * static_cast<int64_t>(size_of(c.dtype));
    if (bytes >= 90'000 && bytes <= 110'000) ++in_bytes;
  }
  for (int64_t times : {1, 2, 3}) {
    for (int64_t more : {-1, 0, 1, 16}) EXPECT_GT((met[{times, more}]), 0) << times << " " << more;
  }
  EXPECT_GT(long_b, kCases / 100);
  EXPECT_GT(long_t, kCases / 100);
  EXPECT_GT(in_bytes, kCases / 100);
}

// Of the cases of a path like mhc_post/cuda, those that must not take its code for four streams
// because post alone is misaligned, and those that may, but not without bounds checks, because rows
// have vectors left over after the last tile.
struct OwnCode {
  int post_misaligned = 0, vectors_left = 0;
};

bool has_vectors(const ConstTensorView& view) {
  constexpr int64_t kVector = 16;  // [bytes]
  const auto is_whole = [&](int64_t elements) {
    return elements * static_cast<int64_t>(size_of(view.dtype)) % kVector == 0;
  };
  const int last = view.shape.rank() - 1;
  bool has = view.strides[last] == 1 && reinterpret_cast<uintptr_t>(view.data) % kVector == 0;
  for (int axis = 0; axis < last; ++axis) has &= view.shape[axis] <= 1 || is_whole(view.strides[axis]);
  return has && is_whole(view.shape[last]);
}

OwnCode count_own_code(const Path& path, uint64_t seed) {
  constexpr int64_t kLeast = 512, kTile = 1024;  // [bytes] of a row
  const Op& op = registry().op("mhc_post");
  OwnCode count;
  for (const Case& c : cases_of(op, path, seed)) {
    const int64_t bytes = c.dims.at("h") * static_cast<int64_t>(size_of(c.dtype));
    if (c.dims.at("n") == 0 || c.dims.at("hc") != 4 || bytes < kLeast) continue;
    const Problem problem(op, path, c, test::cpu());
    const Call call = problem.call();
    const ConstTensorView out = call.outputs[mhc_post::kOut];
    const ConstTensorView post = call.inputs[mhc_post::kPost];
    const auto others = {call.inputs[mhc_post::kX], call.inputs[mhc_post::kResidual],
                         call.inputs[mhc_post::kComb], out};
    if (!std::ranges::all_of(others, has_vectors)) continue;
    if (!has_vectors(post)) {
      ++count.post_misaligned;
    } else if (bytes % kTile != 0 && std::ranges::all_of(others, &ConstTensorView::is_dense)) {
      ++count.vectors_left;
    }
  }
  return count;
}

TEST(GeneratedCases, MeetTheCodeThatAPathHasForItsOwnSizes) {
  Path path = registry().op("mhc_post").paths.front();
  path.own_sizes = mhc_post::cuda_sizes();
  for (uint64_t seed : {1, 2, 3}) {
    const OwnCode count = count_own_code(path, seed);
    EXPECT_GT(count.post_misaligned, kCases / 50);
    EXPECT_GT(count.vectors_left, kCases / 20);
  }
  path.own_sizes.clear();
  const OwnCode without = count_own_code(path, 1);
  EXPECT_LT(without.post_misaligned, kCases / 200);
  EXPECT_LT(without.vectors_left, kCases / 200);
}

TEST(GeneratedCases, LetTwoEdgesMeet) {
  Op op = made_up_op();
  op.dims[kB.place].edges = {128};
  const auto cases = cases_of(op, made_up_path(), 0);
  EXPECT_GT(
      std::ranges::count_if(cases, [](const Case& c) { return c.dims[kB] >= 127 && c.dims[kT] >= 255; }),
      kCases / 100);
}

TEST(GeneratedCases, AreLargeIfAsked) {
  const rc::Gen<Case> generator = arbitrary_large_case(made_up_op(), made_up_path());
  rc::Random random(0);
  int large = 0, at_edge = 0, largest = 0;
  for (int i = 0; i < 200; ++i) {
    const Case c = generator(random.split(), rc::kNominalSize).value();
    const int64_t elements = largest_tensor(made_up_op(), c.dims);
    EXPECT_LE(elements, kLargestElements);
    EXPECT_LE(c.state.steps.size(), 1u);
    if (elements >= kLargeElements / 2) ++large;
    if (elements >= kLargestElements / 4) ++largest;
    if (c.dims[kB] * c.dims[kT] >= (1 << 19) - (1 << 15)) ++at_edge;
  }
  EXPECT_GT(large, 100);
  EXPECT_GT(largest, 5);
  EXPECT_GT(at_edge, 50);
}

TEST(GeneratedCases, SumNoTermsNowAndThen) {
  const Op& op = registry().op("trimul");
  const auto cases = cases_of(op, op.paths.front(), 0);
  EXPECT_GT(std::ranges::count_if(cases, [](const Case& c) { return c.dims.at("h") == 0; }), kCases / 100);
}

TEST(GeneratedCases, AreTheSameEverywhere) {
  const auto drawn = [&](uint64_t seed) { return cases_of(made_up_op(), made_up_path(), seed); };
  uint64_t hash = test::hash_of("");
  for (const Case& c : drawn(0)) hash = test::hash_of(c.to_string(), hash);
  EXPECT_EQ(hash, 12000571019102182409u);
  EXPECT_NE(drawn(0), drawn(1));
}

TEST(IsLegal, AsksForAnAxisToInflateOrALongOutermostDimension) {
  const Op& op = registry().op("dynamic_conv");
  const auto legal = [&](Layout layout, int64_t b, int64_t w) {
    return is_legal(layout, op, {{"b", b}, {"t", 65}, {"d", 65}, {"w", w}});
  };
  for (Layout layout : {Layout::kDense, Layout::kStrided, Layout::kMisaligned, Layout::kTransposed}) {
    for (int64_t b : {0, 1, 2, 9}) EXPECT_TRUE(legal(layout, b, 1));
  }
  EXPECT_FALSE(legal(Layout::kBroadcast, 1, 1));
  EXPECT_TRUE(legal(Layout::kBroadcast, 2, 1));
  for (int64_t b : {1, 65, 1000}) {
    EXPECT_FALSE(legal(Layout::kInflated, b, 1));
    EXPECT_TRUE(legal(Layout::kInflated, b, 4));
  }
  for (int64_t b : {2, 3, 64}) EXPECT_TRUE(legal(Layout::kInflated, b, 1));
}

}  // namespace
}  // namespace assay
