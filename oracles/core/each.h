// SPDX-License-Identifier: Apache-2.0
// Formulas whose elements share no work, or that of a row.
#pragma once

#include <optional>
#include <utility>

#include "oracles/core/oracle.h"

namespace assay {

// Pairs of factors, whose products are added up.
class Products {
 public:
  void add(double a, double b) {
    a_.push_back({.mid = a, .is_signed = true});
    b_.push_back({.mid = b, .is_signed = true});
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
// the storage dtype. There are no products yet.
template <class Value>
Evaluate each(const Question& question, const Arithmetic& a, const Extents& shape, Value value) {
  return
      [&a, shape, storage = question.recipe.storage, value = std::move(value)](auto elements, auto values) {
        Products products;
        for (size_t i = 0; i < elements.size(); ++i)
          values[i] = a.round(storage, value(index_of(elements[i], shape), products));
      };
}

// Evaluates an output of this shape whose elements share the work of a row, which runs along the
// last axis. row(index) does that work, index being that of the row, and returns a function:
// value(i) is element i of the row before it is rounded to the storage dtype.
template <class Row>
Evaluate each_row(const Question& question, const Arithmetic& a, const Extents& shape, Row row) {
  return [&a, shape, storage = question.recipe.storage, row = std::move(row)](auto elements, auto values) {
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
