// SPDX-License-Identifier: Apache-2.0
// Which elements of large outputs are compared.
#include "properties/core/compare_outputs.h"

#include <algorithm>
#include <map>
#include <set>

#include "properties/self/spoiled.h"

namespace assay {
namespace {

TEST(ComparedElements, AreAllUpToTheLimitAndASampleBeyond) {
  EXPECT_EQ(compared_elements({3, 4}, 1).size(), 12u);
  const Extents large{2, 4096, 1024};
  const auto sample = compared_elements(large, 1);
  EXPECT_TRUE(std::ranges::is_sorted(sample));
  EXPECT_EQ(std::ranges::adjacent_find(sample), sample.end());
  EXPECT_GT(static_cast<int64_t>(sample.size()), kRandomSample / 2);
  EXPECT_LT(static_cast<int64_t>(sample.size()), 2 * kRandomSample);
  EXPECT_EQ(sample, compared_elements(large, 1));
  EXPECT_NE(sample, compared_elements(large, 2));
  // With whole rows, nearly every sampled row has all its elements.
  const auto rows = compared_elements(large, 1, true);
  EXPECT_LT(static_cast<int64_t>(rows.size()), 2 * kRandomSample);
  const int64_t length = large[large.rank() - 1];
  std::map<int64_t, int64_t> by_row;
  for (int64_t element : rows) ++by_row[element / length];
  int64_t whole = 0;
  for (const auto& [row, count] : by_row) whole += count == length ? count : 0;
  EXPECT_GT(whole, kRandomSample / 2);
  const auto has = [&](int64_t element) { return std::ranges::binary_search(sample, element); };
  for (int64_t i = 0; i < 1024; ++i) {
    ASSERT_TRUE(has(i) && has(element_count(large) - 1 - i) && has(1024 + i) && has(kTileEdge * 1024 + i))
        << i;
  }
  EXPECT_TRUE(std::ranges::all_of(sample, [&](int64_t i) { return i >= 0 && i < element_count(large); }));
}

TEST(BriefSample, ReachesTheEndsOfLongRows) {
  for (const Extents& shape : {Extents{1, 9, 9, 576}, Extents{2, 33, 33, 700}}) {
    std::set<int64_t> places;  // in a block
    const int64_t block = shape[2] * shape[3];
    for (uint64_t seed = 0; seed < 2000; ++seed) {
      for (int64_t element : brief_sample(shape, seed, 2, true)) {
        ASSERT_LT(element, element_count(shape));
        places.insert(element % block);
      }
    }
    EXPECT_EQ(std::ssize(places), block);
  }
}

TEST(BriefSample, IsAllUpToTheLimitAndOfFewBlocksBeyond) {
  EXPECT_EQ(brief_sample({3, 4}, 1, 1, false).size(), 12u);
  const Extents large{64, 4096, 100};
  for (const bool whole_rows : {false, true}) {
    for (int axes = 0; axes <= 3; ++axes) {
      const auto sample = brief_sample(large, 1, axes, whole_rows);
      EXPECT_TRUE(std::ranges::is_sorted(sample));
      EXPECT_EQ(std::ranges::adjacent_find(sample), sample.end());
      EXPECT_LE(std::ssize(sample), kBriefSample);
      EXPECT_GT(std::ssize(sample), kBriefSample / 2);
      EXPECT_TRUE(sample.front() >= 0 && sample.back() < element_count(large));
      EXPECT_EQ(sample, brief_sample(large, 1, axes, whole_rows));
      EXPECT_NE(sample, brief_sample(large, 2, axes, whole_rows));
      std::map<int64_t, int64_t> rows, examples;
      for (int64_t element : sample) ++rows[element / 100], ++examples[element / 100 / 4096];
      // A block is the tensor, an example, a row, an element.
      if (axes == 1) {
        EXPECT_LE(std::ssize(examples), kBriefBlocks);
        EXPECT_GT(std::ssize(examples), 1);
      } else if (!whole_rows) {
        EXPECT_GT(std::ssize(examples), 3 * kBriefBlocks) << axes;
      }
      if (axes < 3 && whole_rows) {
        for (const auto& [row, count] : rows) EXPECT_EQ(count, 100) << row;
      }
    }
  }
}

// A brief comparison is given whole outputs by judge(), its sample alone by those who time a path.
TEST(BriefComparison, FindsItsElementsInWholeOutputsAndInASample) {
  const Case which = parse_case("dynamic_conv/cpu/f32/b=3/t=50/d=100/w=4/seed=3");
  constexpr Brief kBrief{.seed = 1};
  const auto expect = [&](const Path& path, VerdictKind kind) {
    const Subject subject{&registry().op("dynamic_conv"), &path, &registry().oracle("dynamic_conv")};
    Problem problem(*subject.op, path, which, test::cpu());
    const Verdict whole = judge(subject, problem, {.brief = kBrief});
    EXPECT_EQ(whole.kind, kind) << whole.reason;
    EXPECT_LE(whole.outputs.front().comparison.count, kBriefSample);
    problem.run();
    GuardedTensor& out = problem.output_tensors().front();
    out.download();
    TensorBytes sample{out.gather(brief_sample(subject, which, 0, kBrief.seed))};
    const Recipe recipe = path.recipe(which.dims, which.dtype);
    const Verdict gathered = judge_outputs(subject, problem, recipe, std::move(sample), {.brief = kBrief});
    EXPECT_EQ(gathered.kind, kind) << gathered.reason;
  };
  const Path& right = registry().op("dynamic_conv").path("cpu");
  expect(right, VerdictKind::kPass);
  // In all sampled blocks, the examples and their rows, the last channels are wrong.
  expect(test::spoiled([](const Call& call) {
           for (int64_t row = 0; row < 150; ++row) test::output(call)[row * 100 + 99] += 1;
         }),
         VerdictKind::kFail);
}

}  // namespace
}  // namespace assay
