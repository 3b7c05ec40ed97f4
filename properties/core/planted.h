// SPDX-License-Identifier: Apache-2.0
// Known-bad implementations: a plain loop of the op with one fault planted in it. Faults that any
// kernel can have are planted here; each op adds faults of its formula.
//
// Every fault is a mistake that a kernel author can make. We trust the harness to see a fault only
// because it sees it here: `assay verify --specimens` judges each specimen with the default budget
// and fails if one is not caught.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "properties/core/specimen.h"

namespace assay {

enum class CommonFault : uint8_t {
  // planted around the loop
  kTailSkipped,
  kLastEntrySkipped,
  kNarrowOffsets,
  kSignedOffsets,
  kContiguousAssumed,
  kLayoutOfFirstInputAssumed,
  kWritesPastRow,
  kReadsPastEnd,
  kReadsBeforeStart,
  kAccumulatesIntoOutput,
  kModifiesInput,
  kNondeterministic,
  kRepeatedCallSkipped,
  // planted in the loop's FaultyArithmetic
  kProductsRounded,
  kSumsRounded,
  kSumsInFixedPoint,
  kInputsRounded,
  kOutputTruncated,
  kSubnormalsFlushed,
  kSubnormalResultsFlushed,
};

// What a loop has to get wrong itself: nothing, a fault of the op's own, or a common fault of its
// arithmetic.
template <class Own>
struct Fault {
  std::optional<Own> own = {};
  std::optional<CommonFault> common = {};

  bool operator==(Own fault) const { return own == fault; }
  bool operator==(CommonFault fault) const { return common == fault; }
};

// FaultyArithmetic in float for tensors stored as T. Some tensors of the op may be stored as float
// instead.
template <class T>
class FaultyArithmetic {
 public:
  template <class Own>
  explicit FaultyArithmetic(const Fault<Own>& fault) : fault_(fault.common) {}

  template <class Stored>
  float load(Stored stored) const {
    const auto value = static_cast<float>(to_double(stored));
    if (fault_ == CommonFault::kInputsRounded) return static_cast<float>(to_double(to_bf16(value)));
    return fault_ == CommonFault::kSubnormalsFlushed ? flushed<Stored>(value) : value;
  }
  float multiply(float a, float b) const {
    return fault_ == CommonFault::kProductsRounded ? through_storage(a * b) : a * b;
  }
  float add(float a, float b) const {
    if (fault_ == CommonFault::kSumsRounded) return through_storage(a + b);
    return fault_ == CommonFault::kSumsInFixedPoint ? std::rint((a + b) * 0x1p12f) * 0x1p-12f : a + b;
  }

  T store(float value) const {
    T stored = from_double<T>(fault_ == CommonFault::kSubnormalResultsFlushed ? flushed<T>(value) : value);
    if constexpr (sizeof(T) == 2) {
      const bool rounded_up = std::abs(to_double(stored)) > std::abs(value);
      if (fault_ == CommonFault::kOutputTruncated && rounded_up) --stored.bits;
    }
    return stored;
  }

  static float through_storage(float value) { return static_cast<float>(to_double(from_double<T>(value))); }

 private:
  template <class Stored>
  static float flushed(float value) {
    const double smallest_normal = std::ldexp(1.0, format_of(dtype_of<Stored>()).min_exponent);
    return std::abs(value) < smallest_normal ? 0.0f : value;
  }

  std::optional<CommonFault> fault_;
};

// Accesses a tensor by indices. Missing last indices are 0.
template <class T>
class Elements {
 public:
  // The elements of an input are not const, since some faults write to them.
  template <class Void>
  explicit Elements(const BasicTensorView<Void>& view)
      : data_(const_cast<T*>(static_cast<const T*>(view.data))), strides_(view.strides) {}

  template <class... Index>
  T& operator()(Index... index) const {
    return data_[offset_of({index...}, strides_)];
  }

 private:
  T* data_;
  Extents strides_;
};

struct FaultInfo {
  std::string_view path;           // "specimen.tap_dropped"
  std::string_view sentence;       // "the first tap is left out"
  std::vector<DType> dtypes = {};  // empty: those that the op's first path serves
};

using Run = std::function<void(const Call&)>;
using FaultyLoop = std::function<void(const Call&, std::optional<CommonFault> in_its_arithmetic)>;

// A specimen has the recipe of the op's first path.
Specimen make_specimen(const Op& op, const FaultInfo& info, Run run);
// One specimen for each common fault except those in `without`.
std::vector<Specimen> common_specimens(const Op& op, const FaultyLoop& loop,
                                       const std::vector<CommonFault>& without);

template <class Own>
struct OwnFault {
  Own fault;
  FaultInfo info;
};

// All specimens of an op: its own faults, and the common ones except those in `without`. loop(call,
// fault) computes right results if there is no fault.
template <class Own>
std::vector<Specimen> plant(const Op& op, const std::vector<OwnFault<Own>>& own,
                            void (*loop)(const Call&, const Fault<Own>&),
                            const std::vector<CommonFault>& without = {}) {
  std::vector<Specimen> all;
  for (const auto& [fault, info] : own) {
    all.push_back(make_specimen(
        op, info, [loop, planted = Fault<Own>{.own = fault}](const Call& call) { loop(call, planted); }));
  }
  const FaultyLoop with_common = [loop](const Call& call, std::optional<CommonFault> fault) {
    loop(call, Fault<Own>{.common = fault});
  };
  for (Specimen& specimen : common_specimens(op, with_common, without)) all.push_back(std::move(specimen));
  return all;
}

// Like `run`, but an output element stays unwritten if left_out(index, size) holds for its index
// along the dimension `key`.
using LeftOut = std::function<bool(int64_t index, int64_t size)>;
Run leaving_out(const Op& op, std::string_view key, LeftOut left_out, Run run);

}  // namespace assay
