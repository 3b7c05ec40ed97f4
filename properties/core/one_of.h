// SPDX-License-Identifier: Apache-2.0
// A choice for rapidcheck that shrinks in order.
#pragma once

#include <rapidcheck.h>

#include <utility>
#include <vector>

namespace assay {

// One of the values. It shrinks toward the first, which rapidcheck's elementOf does not.
template <class T>
rc::Gen<T> one_of(std::vector<T> values) {
  const auto count = static_cast<int64_t>(values.size());
  return rc::gen::map(rc::gen::inRange<int64_t>(0, count),
                      [values = std::move(values)](int64_t i) { return values[static_cast<size_t>(i)]; });
}

}  // namespace assay
