// SPDX-License-Identifier: Apache-2.0
// Elements of a stored tensor as doubles.
#pragma once

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

 private:
  const ConstTensorView& view_;
};

}  // namespace assay
