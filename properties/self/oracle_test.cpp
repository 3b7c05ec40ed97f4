// SPDX-License-Identifier: Apache-2.0
// The oracle of dynamic_conv against its formula in exact arithmetic, written again from the contract.
#include "oracles/core/oracle.h"

#include <cmath>
#include <cstring>

#include "oracles/core/compare.h"
#include "properties/core/problem.h"
#include "properties/self/exact_sum.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using test::ExactSum;

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

// Adds the products of one element of an output.
using Terms = void (*)(const std::vector<Dense>& inputs, const Dims& dims, const Extents& at, ExactSum& sum);

void out_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t taps = dims["w"];
  for (int64_t lag = 0; lag < taps && lag <= at[1]; ++lag) {
    sum.add(in[1]({at[0], at[1], at[2], taps - 1 - lag}), in[0]({at[0], at[1] - lag, at[2]}));
  }
}

void dx_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t taps = dims["w"];
  for (int64_t lag = 0; lag < taps && at[1] + lag < dims["t"]; ++lag) {
    sum.add(in[0]({at[0], at[1] + lag, at[2]}), in[2]({at[0], at[1] + lag, at[2], taps - 1 - lag}));
  }
}

void dk_terms(const std::vector<Dense>& in, const Dims& dims, const Extents& at, ExactSum& sum) {
  const int64_t lag = dims["w"] - 1 - at[3];
  if (at[1] >= lag) sum.add(in[0]({at[0], at[1], at[2]}), in[1]({at[0], at[1] - lag, at[2]}));
}

void audit(const Case& which, const std::vector<Terms>& outputs) {
  const Op& op = registry().op(which.op);
  Problem problem(op, op.path("cpu"), which, test::cpu());
  problem.draw_inputs(which.seed);
  std::vector<Dense> inputs;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    inputs.emplace_back(problem.inputs()[i], which.dtype, shape_of(op.inputs[i], which.dims));
  }
  const Question question = problem.question();
  for (size_t output = 0; output < outputs.size(); ++output) {
    const Extents shape = shape_of(op.outputs[output], which.dims);
    std::vector<int64_t> elements(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<int64_t>(i);
    std::vector<Expected> expected(elements.size());
    registry().oracle(which.op).answer(question, static_cast<int>(output), elements, expected);
    for (size_t i = 0; i < elements.size(); ++i) {
      ExactSum exact;
      outputs[output](inputs, which.dims, index_of(elements[i], shape), exact);
      const std::string where = fmt::format("{}[{}] of {}", op.outputs[output].name, i, which.to_string());
      if (!std::isfinite(exact.nearest())) {
        ASSERT_EQ(std::isnan(exact.nearest()), std::isnan(expected[i].value)) << where;
        if (std::isinf(exact.nearest())) {
          ASSERT_EQ(expected[i].value, exact.nearest()) << where;
        }
        continue;
      }
      // The oracle's own error must not matter beside what it allows a path.
      ASSERT_LE(exact.distance(expected[i].value), 1e-6 * expected[i].bound) << where;
      ASSERT_TRUE(std::isfinite(expected[i].bound)) << where;
      // The exact sum, rounded once, must be right.
      const double rounded = visit(which.dtype, [&]<class T>(std::type_identity<T>) {
        return to_double(from_double<T>(exact.nearest()));
      });
      ASSERT_TRUE(is_right(expected[i], rounded, which.dtype)) << where;
    }
  }
}

class DynamicConvOracle : public testing::TestWithParam<Regime> {};
INSTANTIATE_TEST_SUITE_P(Regimes, DynamicConvOracle,
                         testing::ValuesIn(all_regimes().begin(), all_regimes().end()),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST_P(DynamicConvOracle, AgreesWithExactArithmetic) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (Layout layout : {Layout::kDense, Layout::kStrided, Layout::kTransposed, Layout::kBroadcast}) {
      for (int64_t taps : {1, 3, 8}) {
        Case which{.op = "dynamic_conv",
                   .path = "cpu",
                   .dtype = dtype,
                   .dims = {{"b", 2}, {"t", 6}, {"d", 3}, {"w", taps}}};
        which.data = GetParam();
        which.layout = layout;
        which.seed = static_cast<uint64_t>(taps);
        audit(which, {out_terms});
        which.op = "dynamic_conv_grad";
        audit(which, {dx_terms, dk_terms});
      }
    }
  }
}

}  // namespace
}  // namespace assay
