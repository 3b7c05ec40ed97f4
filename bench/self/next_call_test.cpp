// SPDX-License-Identifier: Apache-2.0
#include "bench/core/next_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "properties/core/registry.h"

namespace assay {
namespace {

TEST(NextCall, TellsInHowManyElementsACallDiffersAndWhereFirst) {
  const auto cpu = open_cpu();
  const Subject subject = registry().subject("dynamic_conv", "cpu");
  int calls = 0;
  Path path = *subject.path;
  path.run = [&calls](const Call& call) {
    auto* const out = call.outputs[0].as<float>();
    for (int64_t i = 0; i < call.outputs[0].size(); ++i) out[i] = 2;
    if (++calls == 1) out[66] = out[90] = 0.5;
    if (calls == 4) throw Error("it is tired");
  };
  const Case which{.op = "dynamic_conv", .path = "cpu", .dims = {{"b", 2}, {"t", 4}, {"d", 64}, {"w", 2}}};
  Problem problem(*subject.op, path, which, *cpu);
  problem.draw_inputs(1);
  problem.run();
  for (const GuardedTensor& tensor : problem.output_tensors()) cpu->flip(tensor.device_span());
  EXPECT_EQ(
      against_next_call(problem),
      "; against the call after that, 2 of 512 elements of out differ, first out[0, 1, 2]: 0.5, then 2");
  EXPECT_EQ(against_next_call(problem), "; the call after that gives the same bits as it");
  EXPECT_EQ(against_next_call(problem), "; the call after that ends with it is tired");
}

}  // namespace
}  // namespace assay
