// SPDX-License-Identifier: Apache-2.0
// trimul on a GPU at sizes that no fuzzed case has: planes of several tiles of 128 rows, odd numbers of them, of their
// halves and of the boxes that they leave as, in clusters whose tiles share columns and in others.
#include "properties/core/judge.h"
#include "properties/self/gpu.h"
#include "properties/self/spoiled.h"

namespace assay {
namespace {

TEST(TriMulOnTheGpu, PassesWithPlanesOfManyTiles) {
  const test::Gpu gpu = test::gpu();
  if (gpu.device == nullptr) GTEST_SKIP() << gpu.why_not;
  const Op& op = registry().op("trimul");
  for (const int64_t n : {127, 128, 129, 160, 192, 193, 255, 256, 257, 320, 385, 400, 513, 1025, 1152}) {
    for (const std::string_view name : {"cuda.f32", "cuda.f32_cublaslt"}) {
      const Case which{.op = "trimul",
                       .path = std::string(name),
                       .dtype = DType::kF32,
                       .dims = {{"b", n < 300 ? 2 : 1}, {"n", n}, {"c", 4}, {"h", 3 + n % 2}, {"mask", 1}}};
      const Verdict verdict = test::judge_path(op.path(name), which, nullptr, *gpu.device);
      EXPECT_EQ(verdict.kind, VerdictKind::kPass) << which.to_string() << ": " << verdict.reason;
    }
  }
}

}  // namespace
}  // namespace assay
