// SPDX-License-Identifier: Apache-2.0
#include "properties/core/float_environment.h"

#include <cmath>

#include "properties/self/environment_changes.h"
#include "properties/self/support.h"

namespace assay {
namespace {

TEST(FloatEnvironment, NamesEveryChange) {
  for (const test::EnvironmentChange& change : test::environment_changes()) {
    const FloatEnvironment environment;
    EXPECT_EQ(environment.change(), std::nullopt);
    change.make();
    EXPECT_EQ(environment.change(), change.name);
  }
}

TEST(FloatEnvironment, RaisedFlagsAreNoChange) {
  const FloatEnvironment environment;
  volatile double zero = 0;
  EXPECT_TRUE(std::isinf(1 / zero));
  EXPECT_EQ(environment.change(), std::nullopt);
}

TEST(FloatEnvironment, IsTheDefaultWhateverTheCallerHasAndGivesThatBack) {
  const FloatEnvironment of_test;
  for (const test::EnvironmentChange& change : test::environment_changes()) {
    const FloatEnvironment of_caller;
    change.make();
    {
      const FloatEnvironment of_path;
      EXPECT_EQ(of_path.change(), std::nullopt);
    }
    EXPECT_EQ(of_caller.change(), change.name);
  }
  EXPECT_EQ(of_test.change(), std::nullopt);
}

}  // namespace
}  // namespace assay
