// SPDX-License-Identifier: Apache-2.0
// Where run-time values become template arguments.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/error.h"

namespace assay {

// Calls fn(std::integral_constant<int, value>{}). The caller has checked that the value lies in
// kFirst..kLast.
template <int kFirst, int kLast, class Fn>
void visit_integer(int64_t value, Fn&& fn) {
  if (value == kFirst) return fn(std::integral_constant<int, kFirst>{});
  if constexpr (kFirst < kLast) {
    visit_integer<kFirst + 1, kLast>(value, fn);
  } else {
    throw Error("{} passed for a number up to {}", value, kLast);
  }
}

// visit() for paths that store nothing in double: calls fn(std::type_identity<T>{}) with T = float,
// f16 or bf16.
template <class Fn>
void visit_storage(DType dtype, Fn&& fn) {
  visit(dtype, [&]<class T>(std::type_identity<T> type) {
    if constexpr (std::is_same_v<T, double>) {
      throw Error("an f64 tensor passed the checks of a path that does not serve it");
    } else {
      fn(type);
    }
  });
}

}  // namespace assay
