// SPDX-License-Identifier: Apache-2.0
// In the edge cases of every op each pair of sizes meets, and each size meets every layout and
// dtype.
#include "properties/self/covering.h"

#include <set>

#include "properties/core/generate.h"
#include "properties/self/edge_cases.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::Edges;
using test::Row;

class CoveringEveryOp : public testing::TestWithParam<const Op*> {};
INSTANTIATE_TEST_SUITE_P(Ops, CoveringEveryOp, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

constexpr int64_t kMostElements = 1 << 13;

// Counted without covering.h: the sizes of two dimensions whose product fits where all others are
// 1.
TEST_P(CoveringEveryOp, EveryPairOfSizesMeets) {
  const Op& op = *GetParam();
  const auto cases = Edges(op, op.path("cpu"), kMostElements).pairs();
  for (const DimInfo& a : op.dims) {
    for (const DimInfo& b : op.dims) {
      if (&a == &b) continue;
      std::set<std::pair<int64_t, int64_t>> met;
      for (const test::EdgeCase& edge : cases) met.emplace(edge.dims.at(a.key), edge.dims.at(b.key));
      for (int64_t size_a : test::boundary_sizes(a)) {
        for (int64_t size_b : test::boundary_sizes(b)) {
          Dims dims;
          for (const DimInfo& dim : op.dims) dims.set(dim.key, std::max<int64_t>(dim.min, 1));
          dims.set(a.key, size_a);
          dims.set(b.key, size_b);
          if (size_a == 0 || size_b == 0 || largest_tensor(op, dims) > kMostElements) continue;
          EXPECT_TRUE(met.contains({size_a, size_b}))
              << a.key << "=" << size_a << " " << b.key << "=" << size_b;
        }
      }
    }
  }
}

TEST_P(CoveringEveryOp, EverySizeMeetsEveryDtypeAndDenseLayoutsOfEveryKind) {
  const Op& op = *GetParam();
  const Path& path = op.path("cpu");
  const auto cases = Edges(op, path, kMostElements).pairs();
  for (const DimInfo& dim : op.dims) {
    std::set<std::tuple<int64_t, DType>> dtypes;
    std::set<std::tuple<int64_t, Layout>> layouts;
    for (const test::EdgeCase& edge : cases) {
      dtypes.emplace(edge.dims.at(dim.key), edge.dtype);
      layouts.emplace(edge.dims.at(dim.key), edge.layout);
    }
    for (int64_t size : test::boundary_sizes(dim)) {
      if (size == 0) continue;
      for (DType dtype : path.dtypes) EXPECT_TRUE(dtypes.contains({size, dtype})) << dim.key << "=" << size;
      for (Layout layout : {Layout::kDense, Layout::kStrided, Layout::kMisaligned, Layout::kTransposed}) {
        EXPECT_TRUE(layouts.contains({size, layout})) << dim.key << "=" << size << " " << name_of(layout);
      }
    }
  }
}

TEST_P(CoveringEveryOp, EmptyDimensionsAreAmongTheCases) {
  const Op& op = *GetParam();
  const auto cases = Edges(op, op.path("cpu"), kMostElements).pairs();
  for (const DimInfo& dim : op.dims) {
    if (dim.min > 0) continue;
    EXPECT_TRUE(std::ranges::any_of(cases, [&](const auto& edge) { return edge.dims.at(dim.key) == 0; }))
        << dim.key;
  }
}

// Three factors of 2, 3 and 4 levels, of which level 1 of the first never meets level 3 of the
// last.
const std::vector<size_t> kLevels = {2, 3, 4};
bool is_possible(const Row& row) {
  return row[0] != 1 || row[2] != 3;
}

TEST(Covering, LeavesOnlyWhatIsImpossible) {
  const std::vector<Row> rows = test::covering_rows(kLevels, is_possible);
  EXPECT_TRUE(test::uncovered_pairs(kLevels, is_possible, rows).empty());
  for (const Row& row : rows) EXPECT_TRUE(is_possible(row));
  EXPECT_LE(rows.size(), 14u);  // 12 pairs of the longest two factors
  const auto possible = [](const Row&) { return true; };
  EXPECT_EQ(test::uncovered_pairs(kLevels, possible, rows).size(), 1u);
}

TEST(Covering, MissesThePairsOfALostRow) {
  const std::vector<Row> rows = test::covering_rows(kLevels, is_possible);
  for (size_t lost = 0; lost < rows.size(); ++lost) {
    std::vector<Row> rest = rows;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(lost));
    EXPECT_FALSE(test::uncovered_pairs(kLevels, is_possible, rest).empty()) << lost;
  }
}

}  // namespace
}  // namespace assay
