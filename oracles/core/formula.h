// SPDX-License-Identifier: Apache-2.0
// What formulas are written with: stored tensors, sums of products, shared values, outputs.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/core/tensor.h"
#include "oracles/core/oracle.h"

namespace assay {

// Elements of a stored tensor, whose view outlives it. They are certain.
class Reader {
 public:
  explicit Reader(const ConstTensorView& view) : view_(view) {}

  Ball operator()(const Extents& index) const {
    const int64_t offset = offset_of(index, view_.strides);
    const double value = visit(view_.dtype, [&]<class T>(std::type_identity<T>) {
      return to_double(static_cast<const T*>(view_.data)[offset]);
    });
    return {.mid = value, .is_signed = true};
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

// Each value is computed when one of several threads first asks for it.
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

// Pairs of factors, whose products are added up.
class Products {
 public:
  void add(Ball a, Ball b) {
    a_.push_back(a);
    b_.push_back(b);
  }
  // Leaves none.
  Ball sum(const Arithmetic& arithmetic, const Sum& sum) {
    const Ball total = arithmetic.dot(a_.row(), b_.row(), sum);
    a_.clear();
    b_.clear();
    return total;
  }

 private:
  Balls a_, b_;
};

// Evaluates an output of this shape: value(index, products) is an element before it is rounded to
// the storage dtype, or to its own. There are no products yet.
template <class Value>
Evaluate each(const Question& question, const Arithmetic& a, const Extents& shape, Value value,
              std::optional<DType> own = {}) {
  return [&a, shape, value, storage = own.value_or(question.recipe.storage)](auto elements, auto values) {
    Products products;
    for (size_t i = 0; i < elements.size(); ++i)
      values[i] = a.round(storage, value(index_of(elements[i], shape), products));
  };
}

// Evaluates an output of this shape whose elements share the work of a row, which runs along the
// last axis. row(index) does that work, index being that of the row, and returns a function:
// value(i) is element i of the row before it is rounded to the storage dtype, or to its own.
template <class Row>
Evaluate each_row(const Question& question, const Arithmetic& a, const Extents& shape, Row row,
                  std::optional<DType> own = {}) {
  return [&a, shape, row, storage = own.value_or(question.recipe.storage)](auto elements, auto values) {
    Extents rows;
    for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows.push_back(shape[axis]);
    const int64_t length = shape[shape.rank() - 1];
    std::optional<decltype(row(rows))> value;  // of the row `held`
    int64_t held = -1;
    for (size_t i = 0; i < elements.size(); ++i) {
      const int64_t at = elements[i] / length;
      if (at != held) value.emplace(row(index_of(at, rows)));
      held = at;
      values[i] = a.round(storage, (*value)(static_cast<size_t>(elements[i] % length)));
    }
  };
}

}  // namespace assay
