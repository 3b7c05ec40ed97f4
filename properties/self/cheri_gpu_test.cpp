// SPDX-License-Identifier: Apache-2.0
// The Cheri rings on a GPU: calls with several examples that all blocks together do not hold, of
// which a fuzzed case seldom has more than one.
#include "kernels/cheri/cheri.h"
#include "properties/core/judge.h"
#include "properties/self/gpu.h"
#include "properties/self/spoiled.h"

namespace assay::cheri {
namespace {

using assay::test::judge_path;

class RingsOnTheGpu : public assay::test::OnTheGpu {};

// With low thresholds a launch has two blocks, which hold at most 8 tiles. These examples have 13
// to 16, odd and even numbers of them. Rows of 101 channels are copied by elements. Rows of 300
// channels take two tiles side by side.
TEST_F(RingsOnTheGpu, PassWithSeveralLongExamples) {
  for (const std::string_view op : {"cheri_conv_norm", "cheri_conv_norm_grad"}) {
    const Path& path = registry().op(op).path("cuda.ring");
    for (const DType dtype : path.dtypes) {
      for (const auto& [l, c] : {std::pair{1800, 64}, {1900, 64}, {1000, 101}, {350, 300}}) {
        Case which{.op = std::string(op),
                   .path = std::string(path.name),
                   .dtype = dtype,
                   .dims = {{"n", 3}, {"l", l}, {"c", c}, {"dilation", 3}}};
        which.state = parse_state("low_thresholds");
        const Verdict verdict = judge_path(path, which, nullptr, device());
        EXPECT_EQ(verdict.kind, VerdictKind::kPass) << which.to_string() << ": " << verdict.reason;
      }
    }
  }
}

}  // namespace
}  // namespace assay::cheri
