// SPDX-License-Identifier: Apache-2.0
#include "kernels/axpy/axpy.h"

namespace assay::axpy {
namespace {

void require_valid(const Tensors& t) {
  const auto require_operand = [&](Input input, const ConstTensorView& view, const Extents& shape) {
    require_dtype(input.name, view, t.out.dtype);
    require_shape(input.name, view, shape);
    require_input(input.name, view);
    require_disjoint(kOut.name, t.out, input.name, view);
  };
  require_output(kOut.name, t.out);
  require_operand(kA, t.a, {1});
  require_operand(kX, t.x, t.out.shape);
  require_operand(kY, t.y, t.out.shape);
}

template <class T>
void axpy(const Tensors& t) {
  const T* x = t.x.as<T>();
  const T* y = t.y.as<T>();
  T* out = t.out.as<T>();
  const auto a = static_cast<float>(to_double(*t.a.as<T>()));
  for (int64_t i = 0; i < t.out.shape[0]; ++i) {
    const auto xi = static_cast<float>(to_double(x[i * t.x.strides[0]]));
    const auto yi = static_cast<float>(to_double(y[i * t.y.strides[0]]));
    out[i * t.out.strides[0]] = from_double<T>(a * xi + yi);
  }
}

}  // namespace

void axpy_cpu(const Tensors& tensors) {
  require_valid(tensors);
  visit(tensors.out.dtype, [&]<class T>(std::type_identity<T>) { axpy<T>(tensors); });
}

}  // namespace assay::axpy
