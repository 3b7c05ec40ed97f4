// SPDX-License-Identifier: Apache-2.0
// Each value is computed when one of several threads first asks for it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace assay {

template <class T>
class Lazy {
 public:
  Lazy(int64_t count, std::function<T(int64_t)> compute)
      : slots_(std::make_unique<Slot[]>(static_cast<size_t>(count))), compute_(std::move(compute)) {}

  const T& operator[](int64_t i) const {
    Slot& slot = slots_[static_cast<size_t>(i)];
    std::call_once(slot.once, [&] { slot.value = compute_(i); });
    return slot.value;
  }

 private:
  struct Slot {
    std::once_flag once;
    T value;
  };
  std::unique_ptr<Slot[]> slots_;
  std::function<T(int64_t)> compute_;
};

}  // namespace assay
