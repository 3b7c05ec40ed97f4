// SPDX-License-Identifier: Apache-2.0
// Formulas whose elements share no work.
#pragma once

#include <utility>

#include "oracles/core/oracle.h"

namespace assay {

// Pairs of factors, whose products are added up.
class Products {
 public:
  void add(double a, double b) {
    a_.push_back({a});
    b_.push_back({b});
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

}  // namespace assay
