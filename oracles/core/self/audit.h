// SPDX-License-Identifier: Apache-2.0
// The audit of an oracle: its op's formula in exact arithmetic, written once more from the
// contract. The tests compare every oracle with it (properties/self/oracle_test.cpp).
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/op.h"
#include "oracles/core/self/exact_sum.h"

namespace assay::test {

// Elements of a dense copy of an input.
class Dense {
 public:
  Dense(std::vector<std::byte> bytes, DType dtype, Extents shape)
      : bytes_(std::move(bytes)), dtype_(dtype), shape_(shape) {}

  double operator()(const Extents& index) const {
    const int64_t at = offset_of(index, dense_strides(shape_));
    return visit(dtype_, [&]<class T>(std::type_identity<T>) {
      T value;
      std::memcpy(&value, &bytes_[static_cast<size_t>(at) * sizeof(T)], sizeof(T));
      return to_double(value);
    });
  }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_;
  Extents shape_;
};

// Adds the exact value of one element of an output to `sum`, as products or as a Real. The inputs
// are in the order of the op's table.
using Terms = void (*)(const std::vector<Dense>& inputs, const Dims& dims, const Extents& at, ExactSum& sum);

struct Audit {
  std::string_view op;
  std::vector<Terms> outputs;  // in the order of the op's table
};

// The audits of all ops, defined in a generated source of the tests.
std::vector<Audit> all_audits();

}  // namespace assay::test
