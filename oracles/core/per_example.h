// SPDX-License-Identifier: Apache-2.0
// What an oracle computes once for each example.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/core/parallel.h"

namespace assay {

// Each is computed when it is first asked for: a fault mostly shows in the first example.
template <class T>
class PerExample {
 public:
  PerExample(int64_t examples, std::function<T(int64_t)> compute)
      : slots_(std::make_unique<Slot[]>(static_cast<size_t>(examples))), compute_(std::move(compute)) {}

  const T& operator[](int64_t n) const {
    Slot& slot = slots_[static_cast<size_t>(n)];
    std::call_once(slot.once, [&] { slot.value = compute_(n); });
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

// Calls visit(n) for each of these examples of `elements` elements, in parallel.
inline void for_examples(int64_t examples, int64_t elements, const std::function<void(int64_t)>& visit) {
  parallel_for(examples, std::max<int64_t>(1, 4096 / std::max<int64_t>(elements, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t n = begin; n < end; ++n) visit(n);
               });
}

}  // namespace assay
