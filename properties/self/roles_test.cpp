// SPDX-License-Identifier: Apache-2.0
#include "properties/core/roles.h"

#include "properties/self/tuner_support.h"

namespace assay {
namespace {

using test::Adder;
using test::cpu;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Launches that do not do what they declare.
std::optional<std::string> fault_of(const Launch& launch) {
  RoleChecker checker(cpu());
  Tuner tuner(cpu());
  // Trials would already have written a buffer that is declared read.
  tuner.force("test_speeds", Config{{"wait", 0}});
  tuner.observe(&checker);
  tuner.run(launch);
  return checker.fault();
}

TEST(Roles, RightOnesPass) {
  Adder adder;
  EXPECT_EQ(fault_of(adder.launch()), std::nullopt);
  EXPECT_EQ(adder.written, 1);
  EXPECT_EQ(adder.sum, 1);
  EXPECT_EQ(adder.updated, 11);
}

TEST(Roles, WrongOnesAreNamed) {
  const auto fault_with = [](size_t buffer, Role declared) {
    Adder adder;
    Launch launch = adder.launch();
    launch.buffers[buffer].role = declared;
    return fault_of(launch).value_or("none");
  };
  EXPECT_THAT(fault_with(1, Role::kRead),
              AllOf(HasSubstr("declares written read, but writes it"), HasSubstr("test_speeds")));
  EXPECT_THAT(fault_with(2, Role::kRead), HasSubstr("declares sum read, but writes it"));
  EXPECT_THAT(fault_with(3, Role::kRead), HasSubstr("declares updated read, but writes it"));
  EXPECT_THAT(fault_with(2, Role::kWrite),
              HasSubstr("declares sum write, but a second run leaves other values"));
  EXPECT_THAT(fault_with(3, Role::kWrite),
              HasSubstr("declares updated write, but a second run leaves other values"));
}

TEST(Roles, AreCheckedInManyThreads) {
  RoleChecker checker(cpu());
  Tuner tuner(cpu());
  tuner.observe(&checker);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      Adder adder;
      Launch launch = adder.launch();
      if (i % 2 == 1) launch.buffers[2].role = Role::kUpdate;  // it is
      if (i % 4 == 3) launch.buffers[3].role = Role::kWrite;   // it is not
      tuner.run(launch);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(checker.fault().value_or("none"), HasSubstr("declares updated write"));
}

}  // namespace
}  // namespace assay
