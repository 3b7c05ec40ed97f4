// SPDX-License-Identifier: Apache-2.0
// Elements of a stored tensor as doubles.
#pragma once

#include <vector>

#include "kernels/core/tensor.h"

namespace assay {

class Reader {
 public:
  explicit Reader(const ConstTensorView& view) : view_(view) {}

  double operator()(const Extents& index) const {
    const int64_t offset = offset_of(index, view_.strides);
    return visit(view_.dtype, [&]<class T>(std::type_identity<T>) {
      return to_double(static_cast<const T*>(view_.data)[offset]);
    });
  }

  // The elements whose index begins with `first`, row-major.
  std::vector<double> all(const Extents& first = {}) const {
    std::vector<double> values;
    if (view_.size() == 0) return values;  // it may have no memory
    visit(view_.dtype, [&]<class T>(std::type_identity<T>) {
      append(static_cast<const T*>(view_.data) + offset_of(first, view_.strides), first.rank(), values);
    });
    return values;
  }

 private:
  template <class T>
  void append(const T* from, int axis, std::vector<double>& to) const {
    if (axis == view_.shape.rank()) {
      to.push_back(to_double(*from));
      return;
    }
    for (int64_t i = 0; i < view_.shape[axis]; ++i) append(from + i * view_.strides[axis], axis + 1, to);
  }

  const ConstTensorView& view_;
};

}  // namespace assay
