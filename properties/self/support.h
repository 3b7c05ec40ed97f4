// SPDX-License-Identifier: Apache-2.0
// What several tests of the harness share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/core/case.h"
#include "kernels/core/device.h"
#include "kernels/core/error.h"
#include "properties/core/registry.h"

namespace assay::test {

inline Device& cpu() {
  static const std::unique_ptr<Device> device = open_cpu();
  return *device;
}

// The message of the Error of kind `kind` that the action throws; anything else fails the test.
template <class Action>
std::string error_of(const Action& action, Error::Kind kind = Error::Kind::kUsage) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

// rapidcheck's own listener prints a random seed that is not used here.
struct SilentListener final : rc::detail::TestListener {
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

// Holds the property on `successes` draws that are the same in every run. Inside it, use RC_ASSERT.
template <class Testable>
void expect_property(const Testable& testable, int successes = 200) {
  rc::detail::TestParams params;
  params.seed = 20251120;
  params.maxSuccess = successes;
  SilentListener listener;
  const auto result = rc::detail::checkTestable(testable, rc::detail::TestMetadata(), params, listener,
                                                std::unordered_map<std::string, rc::detail::Reproduce>());
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  EXPECT_TRUE(result.template is<rc::detail::SuccessResult>()) << message.str() << "\nseed " << params.seed;
}

// Uniform in [begin, end). rapidcheck's inRange begins with the lower end and widens from draw to draw.
template <class T>
T any_between(T begin, T end) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(begin, end));
}

// FNV-1a, for golden values.
inline uint64_t hash_of(std::string_view text, uint64_t hash = 0xCBF29CE484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

inline const Specimen& specimen(std::string_view op, std::string_view fault) {
  const std::string name = "specimen." + std::string(fault);
  const auto& all = registry().specimens();
  const auto found =
      std::ranges::find_if(all, [&](const Specimen& s) { return s.op == op && s.path.name == name; });
  if (found == all.end()) throw Error("{} has no specimen '{}'", op, name);
  return *found;
}

}  // namespace assay::test
