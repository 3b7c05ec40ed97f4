// SPDX-License-Identifier: Apache-2.0
// The Cheri rings on a GPU, in calls that are seldom or never fuzzed: several examples that all
// blocks together do not hold, and examples of many tiles.
#include "kernels/cheri/cheri.h"
#include "properties/core/judge.h"
#include "properties/self/gpu.h"
#include "properties/self/spoiled.h"

namespace assay::cheri {
namespace {

using assay::test::judge_path;

class RingsOnTheGpu : public assay::test::OnTheGpu {
 protected:
  // Judges both rings in all dtypes.
  void expect_pass(int64_t n, int64_t l, int64_t c, std::string_view state) {
    for (const std::string_view op : {"cheri_conv_norm", "cheri_conv_norm_grad"}) {
      const Path& path = registry().op(op).path("cuda.ring");
      for (const DType dtype : path.dtypes) {
        Case which{.op = std::string(op),
                   .path = std::string(path.name),
                   .dtype = dtype,
                   .dims = {{"n", n}, {"l", l}, {"c", c}, {"dilation", 3}}};
        which.state = parse_state(state);
        const Verdict verdict = judge_path(path, which, nullptr, device());
        EXPECT_EQ(verdict.kind, VerdictKind::kPass) << which.to_string() << ": " << verdict.reason;
      }
    }
  }
};

// With low thresholds a launch has two blocks, which hold at most 8 tiles. These examples have 13
// to 16, odd and even numbers of them. Rows of 101 channels are copied by elements. Rows of 300
// channels take two tiles side by side.
TEST_F(RingsOnTheGpu, PassWithSeveralLongExamples) {
  for (const auto& [l, c] : {std::pair{1800, 64}, {1900, 64}, {1000, 101}, {350, 300}})
    expect_pass(3, l, c, "low_thresholds");
}

// 75 and 89 tiles: a lane adds up the sums of several of them.
TEST_F(RingsOnTheGpu, PassWithManyTilesOfAnExample) {
  for (const auto& [l, c] : {std::pair{10000, 64}, {12000, 61}}) expect_pass(2, l, c, "first_call");
}

}  // namespace
}  // namespace assay::cheri
