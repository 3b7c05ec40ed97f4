// SPDX-License-Identifier: Apache-2.0
// Every known-bad implementation is caught with the default budget.
#include <array>
#include <cmath>
#include <iostream>
#include <set>

#include "properties/core/fuzz.h"
#include "properties/core/planted.h"
#include "properties/core/recipe_specimens.h"
#include "properties/core/recipes.h"
#include "properties/self/gpu.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

class EverySpecimen : public testing::TestWithParam<const Specimen*> {};

std::vector<const Specimen*> all_specimens() {
  std::vector<const Specimen*> all;
  for (const Op* op : registry().ops()) {
    for (const Specimen& specimen : registry().specimens(*op)) all.push_back(&specimen);
  }
  return all;
}

std::string identifier(const Specimen& specimen) {
  std::string name = fmt::format("{}_{}", specimen.op, specimen.path.name);
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EverySpecimen, testing::ValuesIn(all_specimens()),
                         [](const auto& test) { return identifier(*test.param); });

TEST_P(EverySpecimen, IsCaught) {
  NOT_SANITIZED("a specimen is a loop that is tested, with a fault in it; nobody ships one");
  const Specimen& specimen = *GetParam();
  const Subject subject = registry().subject(specimen.op, specimen.path.name);
  ASSERT_EQ(subject.path, &specimen.path);
  const bool is_quick = std::getenv("ASSAY_QUICK") != nullptr;
  const bool is_nightly = std::getenv("ASSAY_NIGHTLY") != nullptr;
  // A formula with one wrong rounding is as wrong in small problems, and takes its time.
  const bool is_formula = recipe_specimen(*subject.op, *subject.oracle, specimen.path.name).has_value();
  const uint64_t seeds = is_quick ? 1 : 3;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    FuzzOptions options;
    options.seed = seed;
    options.stop_at_first_failure = true;
    if (is_quick) options.max_elements = 8192;
    if (is_formula && !is_nightly) options.max_elements = 2048;
    options.max_shrinks = 0;  // fuzz_test.cpp shows that failures shrink
    std::optional<Judged> caught;
    int64_t judged = 0;
    fuzz(subject, test::cpu(), options, [&](const Judged& one) {
      ++judged;
      if (is_failure(one.verdict.kind)) caught = one;
      return true;
    });
    ASSERT_TRUE(caught) << specimen.fault << ": not caught in " << judged << " cases with seed " << seed;
    EXPECT_EQ(caught->verdict.kind, VerdictKind::kFail) << caught->verdict.reason;
    if (seed != 0) continue;
    std::cout << caught->which.to_string() << "\n    " << specimen.fault << "; case " << judged << ": "
              << caught->verdict.reason << "\n";
  }
}

// A recipe that only large problems have has specimens, too.
TEST(RecipeSpecimens, AreThoseOfRecipesOfAllSizes) {
  Op op = registry().op("mhc_post");
  op.paths = {op.path("cpu")};
  Path& path = op.paths.front();
  path.dtypes = {DType::kF32};
  const auto names = [&] {
    std::vector<std::string_view> all;
    for (const Specimen& specimen : recipe_specimens(op, registry().oracle(op.name))) {
      EXPECT_EQ(specimen.path.dtypes, path.dtypes) << specimen.path.name;
      all.push_back(specimen.path.name);
    }
    return all;
  };
  const std::vector<std::string_view> of_one = names();
  path.recipe = [](const Dims& dims, DType storage) {
    Recipe recipe{.storage = storage};
    if (dims.at("h") > 64) recipe.roundings = {{.site = {9, "long"}, .format = Format::kTF32}};
    return recipe;
  };
  const std::vector<std::string_view> of_both = names();
  EXPECT_EQ(of_both.size(), of_one.size() + 2);  // truncated, not rounded
  EXPECT_EQ(std::ranges::count(of_both, "specimen.cpu.long_truncated"), 1);
}

// Each recipe has specimens in every build, also where its path is absent.
TEST(RecipeSpecimens, AreThoseOfAbsentPaths) {
  for (std::string_view fault : {"cuda_bf16.hidden_truncated", "cuda_f16.hidden_truncated",
                                 "cuda_bf16.z_truncated", "cuda_f32.contraction_lacks_cross_product"})
    EXPECT_NO_THROW(test::specimen("trimul", fault));
  for (std::string_view fault :
       {"cuda_train.z_truncated", "cuda_fused.y_truncated", "cuda_fused_bf16x3.w1_y_lacks_cross_product"})
    EXPECT_NO_THROW(test::specimen("cheri_block", fault));
}

// The specimens of recipes are caught for their faults: without one, the formula passes.
TEST(FormulaAsAPath, IsRightUnderEveryRecipe) {
  NOT_SANITIZED("the oracles run in BallsOf");
  const bool is_quick = std::getenv("ASSAY_QUICK") != nullptr;
  for (const Op* op : registry().ops()) {
    const Oracle& oracle = registry().oracle(op->name);
    std::set<std::string> known;  // recipes
    for (const Path& path : all_paths(*op)) {
      bool is_new = false;
      for (const NamedRecipe& said : recipes_of(*op, path).recipes)
        is_new |= known.insert(said.recipe.to_string()).second;
      if (is_quick && !is_new) continue;
      const Path formula = formula_path(*op, path, oracle);
      FuzzOptions options;
      options.cases = std::getenv("ASSAY_NIGHTLY") == nullptr ? 40 : 2000;
      options.max_elements = 8192;
      fuzz({op, &formula, &oracle}, test::cpu(), options, [&](const Judged& judged) {
        EXPECT_FALSE(is_failure(judged.verdict.kind))
            << path.name << ": " << judged.which.to_string() << ": " << judged.verdict.reason;
        return !HasFailure();
      });
    }
  }
}

class EveryOp : public testing::TestWithParam<const Op*> {
 protected:
  const Op& op() const { return *GetParam(); }
  Subject subject(const Path& path) const { return {&op(), &path, &registry().oracle(op().name)}; }
  Case smallest_case(const Path& path) const {
    Case which;
    which.op = op().name;
    which.path = path.name;
    which.dtype = path.dtypes.front();
    for (const DimInfo& dim : op().dims) {
      which.dims.set(dim.key, is_summed(op(), dim) ? dim.edges.front() : std::max<int64_t>(dim.min, 1));
    }
    return which;
  }

  // A problem with more entries along a dimension than a CUDA grid has blocks along y or z, for
  // each dimension in turn.
  template <class Body>
  void for_each_long_case(const Path& path, const Body& body) const {
    constexpr int64_t kLong = kLargestGrid + 2;
    for (const DimInfo& dim : op().dims) {
      if (dim.max < kLong || !is_axis_of_output(op(), dim.key)) continue;
      Case which = smallest_case(path);
      which.dims.set(dim.key, kLong);
      body(dim, which);
    }
  }
  void expect_long_cases_pass(DeviceKind kind, Device& device) const {
    for (const Path& path : op().paths) {
      if (path.device != kind) continue;
      int passed = 0;
      const auto expect_pass = [&](const Case& which) {
        const Verdict verdict = judge(subject(path), which, device);
        if (verdict.kind == VerdictKind::kUnsupported) return;
        EXPECT_FALSE(is_failure(verdict.kind)) << which.to_string() << ": " << verdict.reason;
        if (verdict.kind != VerdictKind::kSkipped) ++passed;
      };
      for_each_long_case(path, [&](const DimInfo& dim, const Case& which) {
        expect_pass(which);
        if (kind == DeviceKind::kCpu) return;
        // A kernel may combine short entries in a block. These are long enough for blocks of their
        // own.
        for (const DimInfo& other : op().dims) {
          if (other.key == dim.key || is_short(other) || !is_axis_of_output(op(), other.key)) continue;
          Case wide = which;
          int64_t size = std::min<int64_t>(300, other.max);
          wide.dims.set(other.key, size);
          while (size > 1 && tensor_bytes(op(), wide.dims, wide.dtype) > kMostBytes) {
            wide.dims.set(other.key, size /= 2);  // if two axes of a tensor have this length
          }
          expect_pass(wide);
        }
      });
      EXPECT_GT(passed, 0) << path.name;
    }
  }

  static constexpr int64_t kLargestGrid = 65'535;  // [blocks] along y and z
  static constexpr int64_t kMostBytes = int64_t{2} << 30;
};

INSTANTIATE_TEST_SUITE_P(All, EveryOp, testing::ValuesIn(registry().ops()),
                         [](const auto& test) { return std::string(test.param->name); });

// Whether a right path with this recipe passes on plain data: then the judge has seen that every
// wrong answer of the certificate would be rejected.
bool do_bounds_tell(const Op& op, const Path& path, DType dtype, const Oracle& oracle) {
  const Path right = formula_path(op, path, oracle);
  return std::ranges::any_of(std::array{3, 20}, [&](int64_t size) {
    Case which{.op = std::string(op.name),
               .path = std::string(path.name),
               .dtype = dtype,
               .dims = test::small_dims(op, size),
               .state = {}};
    return judge({&op, &right, &oracle}, which, test::cpu()).kind == VerdictKind::kPass;
  });
}

// No bound is too loose to mean anything.
TEST_P(EveryOp, BoundsOfEveryRecipeMeanSomething) {
  const Oracle& oracle = registry().oracle(op().name);
  const Oracle loose =
      test::changed_oracle([](int64_t, Ball& ball) { ball.radius += 2 * std::abs(ball.mid); }, op().name);
  for (const Path& path : all_paths(op())) {
    for (DType dtype : path.dtypes) {
      EXPECT_TRUE(do_bounds_tell(op(), path, dtype, oracle)) << path.name << " " << name_of(dtype);
      EXPECT_FALSE(do_bounds_tell(op(), path, dtype, loose)) << path.name << " " << name_of(dtype);
    }
  }
}

// Otherwise a specimen could be caught for another reason than its fault.
TEST_P(EveryOp, LoopIsRightBeforeAFaultIsPlanted) {
  NOT_SANITIZED("a specimen's loop; nobody ships one");
  const Specimen& specimen = test::specimen(op().name, "narrow_offsets");
  FuzzOptions options;
  options.max_shrinks = 0;
  if (std::getenv("ASSAY_QUICK") != nullptr) options.cases = 60;
  int64_t passed = 0;
  fuzz(subject(specimen.path), test::cpu(), options, [&](const Judged& judged) {
    if (judged.which.layout == Layout::kInflated) return true;
    EXPECT_FALSE(is_failure(judged.verdict.kind))
        << judged.which.to_string() << ": " << judged.verdict.reason;
    passed += judged.verdict.kind == VerdictKind::kPass ? 1 : 0;
    return true;
  });
  EXPECT_GT(passed, options.cases / 2);
}

// Only this layout shows a wrapped offset with small tensors. Which of them it shows depends on the
// axis and the stride, and so on the seed.
TEST_P(EveryOp, NarrowOffsetsAreCaughtByInflatedTensorsOnly) {
  for (std::string_view fault : {"narrow_offsets", "signed_offsets"}) {
    const Path& path = test::specimen(op().name, fault).path;
    Case which = smallest_case(path);
    which.dims = test::small_dims(op(), 3);
    for (const Layout layout : all_layouts()) {
      which.layout = layout;
      int caught = 0;
      for (which.seed = 0; which.seed < 8; ++which.seed) {
        const Verdict verdict = judge(subject(path), which, test::cpu());
        caught += verdict.kind == VerdictKind::kFail ? 1 : 0;
        EXPECT_TRUE(verdict.kind == VerdictKind::kFail || !is_failure(verdict.kind))
            << which.to_string() << ": " << verdict.reason;
      }
      EXPECT_EQ(caught > 0, layout == Layout::kInflated) << fault << " " << name_of(layout);
    }
  }
}

// No drawn case is this long, so it is no specimen.
TEST_P(EveryOp, EntriesBeyondTheGridAreMissed) {
  NOT_SANITIZED("a specimen is a loop that is tested, with a fault in it; nobody ships one");
  const Specimen& loop = test::specimen(op().name, "narrow_offsets");
  for_each_long_case(loop.path, [&](const DimInfo& dim, const Case& which) {
    Path path = loop.path;
    EXPECT_FALSE(is_failure(judge(subject(path), which, test::cpu()).kind));
    const auto beyond_grid = [](int64_t index, int64_t) { return index >= kLargestGrid; };
    path.run = leaving_out(op(), dim.key, beyond_grid, loop.path.run);
    EXPECT_EQ(judge(subject(path), which, test::cpu()).kind, VerdictKind::kFail);
  });
}

TEST_P(EveryOp, EntriesBeyondTheGridAreComputedOnTheCpu) {
  NOT_SANITIZED("JudgeEveryPath.PassesOnLargeOutputs has the loops of long problems");
  expect_long_cases_pass(DeviceKind::kCpu, test::cpu());
}

TEST_P(EveryOp, EntriesBeyondTheGridAreComputedOnTheGpu) {
  const test::Gpu gpu = test::gpu();
  if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
  expect_long_cases_pass(DeviceKind::kCuda, *gpu.device);
}

TEST(Specimens, AreNoPathsOfTheirOps) {
  std::set<std::string> names;
  for (const Specimen* specimen : all_specimens()) {
    EXPECT_TRUE(specimen->path.name.starts_with("specimen."));
    EXPECT_TRUE(names.insert(identifier(*specimen)).second) << specimen->path.name;
    for (const Path& path : registry().op(specimen->op).paths) EXPECT_NE(path.name, specimen->path.name);
  }
}

}  // namespace
}  // namespace assay
