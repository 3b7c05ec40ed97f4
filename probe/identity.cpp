// SPDX-License-Identifier: Apache-2.0
#include "probe/identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "oracles/core/formula.h"
#include "properties/core/random.h"

namespace assay {
namespace {

constexpr double kWantedMiss = 3e-11;
constexpr int kSumBits = 24;         // [bits] of the sums
constexpr int64_t kMostValue = 128;  // so |S| is at most 257

TensorBytes integers(const Op& op, const Dims& dims, DType storage, int64_t most, uint64_t seed) {
  TensorBytes all;
  for (size_t tensor = 0; tensor < op.inputs.size(); ++tensor) {
    const CounterRandom random(seed, tensor);
    const auto count = static_cast<size_t>(element_count(shape_of(op.inputs[tensor], dims)));
    visit(op.inputs[tensor].dtype.value_or(storage), [&]<class T>(std::type_identity<T>) {
      std::vector<std::byte> bytes(count * sizeof(T));
      for (size_t i = 0; i < count; ++i) {
        const auto value = static_cast<int64_t>(random.bits(i) % static_cast<uint64_t>(2 * most + 1)) - most;
        const T stored = from_double<T>(static_cast<double>(value));
        std::memcpy(&bytes[i * sizeof(T)], &stored, sizeof(T));
      }
      all.push_back(std::move(bytes));
    });
  }
  return all;
}

std::vector<double> exact_output(const Subject& subject, const Question& question, size_t output) {
  const Arithmetic exact(Arithmetic::Mode::kExact);
  const Evaluate evaluate = subject.oracle->formula(question, static_cast<int>(output), exact, 0);
  const int64_t count = element_count(shape_of(subject.op->outputs[output], question.dims));
  std::vector<int64_t> elements(static_cast<size_t>(count));
  std::iota(elements.begin(), elements.end(), 0);
  std::vector<Ball> balls(elements.size());
  evaluate(elements, balls);
  std::vector<double> values;
  for (const Ball& ball : balls) values.push_back(ball.mid);
  return values;
}

// Of the outputs for these inputs.
std::optional<std::string> difference(const Subject& subject, const Case& which, const TensorBytes& inputs,
                                      const TensorBytes& outputs) {
  Question question{.dims = which.dims, .recipe = {.storage = which.dtype}, .inputs = {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = subject.op->inputs[i];
    const Extents shape = shape_of(info, which.dims);
    question.inputs.push_back(
        {inputs[i].data(), info.dtype.value_or(which.dtype), shape, dense_strides(shape)});
  }
  for (size_t output = 0; output < outputs.size(); ++output) {
    const TensorInfo& info = subject.op->outputs[output];
    const ConstTensorView got{outputs[output].data(), info.dtype.value_or(which.dtype),
                              shape_of(info, question.dims), dense_strides(shape_of(info, question.dims))};
    const std::vector<double> is = Reader(got).all(), must = exact_output(subject, question, output);
    for (size_t i = 0; i < is.size(); ++i) {
      if (is[i] == must[i]) continue;
      return fmt::format("{}{} is {}, by the formula {}", info.name,
                         index_of(static_cast<int64_t>(i), got.shape).to_string(), is[i], must[i]);
    }
  }
  return std::nullopt;
}

}  // namespace

Identity test_identity(const Subject& subject, const PathCalls& calls, DType dtype, const Dims& dims,
                       int64_t terms, uint64_t seed) {
  const Op& op = *subject.op;
  Identity found{.dims = dims, .degree = op.degree};
  const int bits = std::min(kSumBits, format_of(dtype).precision);
  const double root = std::pow(std::ldexp(1.0, bits) / static_cast<double>(terms), 1.0 / op.degree);
  // All magnitudes of a sum's terms add up to 2^bits at most.
  int64_t most = std::min(kMostValue, static_cast<int64_t>(root));
  while (static_cast<double>(terms) * std::pow(static_cast<double>(most), op.degree) > std::ldexp(1.0, bits))
    --most;
  found.values = 2 * most + 1;
  const double miss = static_cast<double>(op.degree) / static_cast<double>(found.values);
  if (most < 1 || miss >= 0.5) {
    found.why_not = fmt::format("only {} integers keep sums of {} terms exact in {}", found.values, terms,
                                name_of(dtype));
    return found;
  }
  found.draws = static_cast<int64_t>(std::ceil(std::log(kWantedMiss) / std::log(miss)));
  found.miss = std::pow(miss, static_cast<double>(found.draws));
  const Case which{.op = std::string(op.name),
                   .path = std::string(subject.path->name),
                   .dtype = dtype,
                   .dims = dims,
                   .seed = seed};
  for (int64_t draw = 0; draw < found.draws && !found.difference; ++draw) {
    const TensorBytes inputs = integers(op, dims, dtype, most, seed + static_cast<uint64_t>(draw));
    found.difference = difference(subject, which, inputs, calls.outputs(which, inputs));
  }
  return found;
}

}  // namespace assay
