// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/did_you_mean.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

const std::vector<std::string> known{"list", "verify", "run", "gate"};

TEST(DidYouMean, TakesTheNearestWord) {
  for (const char* typed : {"verify", "verfy", "vreify", "verifyy", "Verify", "vefiry"})
    EXPECT_EQ(did_you_mean(typed, known), "; did you mean verify?") << typed;
  EXPECT_EQ(did_you_mean("rum", known), "; did you mean run?");
}

TEST(DidYouMean, SaysNothingIfNoneIsNear) {
  for (const std::string& typed :
       {std::string("vfy"), std::string("zzz"), std::string(), std::string(1 << 20, 'x')})
    EXPECT_EQ(did_you_mean(typed, known), "");
  EXPECT_EQ(did_you_mean("run", {}), "");
}

TEST(DidYouMean, ListsAllWordsThen) {
  EXPECT_EQ(did_you_mean("zzz", known, "there are"), "; there are list, verify, run, gate");
  EXPECT_EQ(did_you_mean("rnu", known, "there are"), "; did you mean run?");
}

}  // namespace
}  // namespace assay
