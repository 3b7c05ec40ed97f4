// SPDX-License-Identifier: Apache-2.0
// Helpers that several tests of the harness share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/device.h"
#include "kernels/core/error.h"
#include "properties/core/case.h"
#include "properties/core/generate.h"
#include "properties/core/random.h"
#include "properties/core/registry.h"
#include "properties/self/marks.h"

namespace assay::test {

inline Device& cpu() {
  static const std::unique_ptr<Device> device = open_cpu();
  return *device;
}

// A tuned run with the first configuration, in a new context. For a path that lists no tunables.
inline std::function<void(const Call&)> untuned(std::function<void(const Call&)> run) {
  return [run = std::move(run)](const Call& call) {
    Context own(call.context->device());
    own.tuner().allow_trials(false);
    Call alone = call;
    alone.context = &own;
    run(alone);
  };
}

// The message of the Error of kind `kind` that the action throws. Anything else fails the test.
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

// Replaces rapidcheck's listener, which prints a random seed that is not used here.
struct SilentListener final : rc::detail::TestListener {
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

// Checks the property on `successes` draws, which are the same in every run. Inside it, use
// RC_ASSERT.
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

// FNV-1a, for golden values.
inline uint64_t hash_of(std::string_view text, uint64_t hash = 0xCBF29CE484222325u) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

// A problem of some dozen elements. Short dimensions have the size `size`, as far as their range
// allows. A dimension that is only summed over has the size of its first edge, which every path
// serves.
inline Dims small_dims(const Op& op, int64_t size) {
  constexpr int64_t kLong[] = {2, 6, 3};
  Dims dims;
  size_t next = 0;
  for (const DimInfo& dim : op.dims) {
    const int64_t wanted = is_short(dim)        ? size
                           : is_summed(op, dim) ? dim.edges.front()
                                                : kLong[next++ % std::size(kLong)];
    dims.set(std::string(dim.key), std::clamp(wanted, dim.min, dim.max));
  }
  return dims;
}

// Whether no output has an element.
inline bool is_empty(const Op& op, const Dims& dims) {
  return std::ranges::all_of(
      op.outputs, [&](const TensorInfo& tensor) { return element_count(shape_of(tensor, dims)) == 0; });
}

// A problem whose largest output takes at least `bytes`, if its last two axes that are not short
// can make it so. The last of these is `row` long, short dimensions are `short_size`, all others
// are as in small_dims().
inline Dims large_dims(const Op& op, DType dtype, int64_t row, int64_t short_size, int64_t bytes) {
  Dims dims = small_dims(op, short_size);
  const DimInfo* rows_of = nullptr;
  const DimInfo* row_of = nullptr;
  for (const DimInfo& dim : op.dims) {
    if (is_short(dim) || !is_axis_of_output(op, dim.key)) continue;
    dims.set(std::string(dim.key), std::clamp<int64_t>(1, dim.min, dim.max));
    rows_of = std::exchange(row_of, &dim);
  }
  if (row_of != nullptr) dims.set(std::string(row_of->key), std::min(row, row_of->max));
  const auto is_small = [&](const TensorInfo& tensor) {
    const auto size = static_cast<int64_t>(size_of(tensor.dtype.value_or(dtype)));
    return element_count(shape_of(tensor, dims)) * size < bytes;
  };
  const int64_t most = rows_of == nullptr ? 0 : std::min<int64_t>(rows_of->max, 10'000);
  for (int64_t size = 50; size <= most && std::ranges::all_of(op.outputs, is_small); size += 50) {
    dims.set(std::string(rows_of->key), size);
  }
  return dims;
}

// Whether values near the end of the range make f32 or a storage dtype overflow.
inline bool may_overflow(const Data& data) {
  return data.has(Ingredient::kLargeInput) || data.has(Ingredient::kLargeIndex) ||
         data.has(Ingredient::kNearLimit);
}

// Whether infinities, or what overflows, may meet what has no sign: right paths then differ without
// limit.
inline bool may_be_open(const Data& data) {
  return !data.is_finite() || may_overflow(data);
}

inline const Specimen& specimen(std::string_view op, std::string_view fault) {
  const std::string name = "specimen." + std::string(fault);
  const auto& all = registry().specimens(registry().op(op));
  const auto found = std::ranges::find_if(all, [&](const Specimen& s) { return s.path.name == name; });
  if (found == all.end()) throw Error("{} has no specimen '{}'", op, name);
  return *found;
}

}  // namespace assay::test
