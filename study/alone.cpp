// SPDX-License-Identifier: Apache-2.0
#include "study/alone.h"

#include <algorithm>
#include <numeric>

#include "study/errors.h"
#include "study/question.h"

namespace assay::study {
namespace {

std::string_view outermost(const TensorInfo& tensor) {
  const auto axes = axes_of(tensor);
  return axes.empty() ? std::string_view() : axes[0];
}

std::string_view batch_of(const Op& op) {
  return op.inputs.empty() ? std::string_view() : outermost(op.inputs[0]);
}

}  // namespace

std::optional<Alone> alone_of(const Op& op, const Dims& dims, const TensorBytes& inputs, int64_t index) {
  const std::string_view batch = batch_of(op);
  const auto dim = std::ranges::find(op.dims, batch, &DimInfo::key);
  if (dim == op.dims.end() || dim->min > 1 || dims.at(batch) < 2) return std::nullopt;
  const auto entries = static_cast<size_t>(dims.at(batch));
  Alone alone{.index = index, .dims = dims, .inputs = inputs};
  alone.dims.set(batch, 1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (outermost(op.inputs[i]) != batch) continue;
    const size_t part = inputs[i].size() / entries;
    const auto first = inputs[i].begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(index) * part);
    alone.inputs[i].assign(first, first + static_cast<std::ptrdiff_t>(part));
  }
  return alone;
}

bool has_part(const Op& op, size_t output) {
  return outermost(op.outputs[output]) == batch_of(op);
}

bool is_independent(const Op& op, const Oracle& oracle, size_t output, const Question& whole,
                    const Question& alone, int64_t index) {
  const Extents shape = shape_of(op.outputs[output], alone.dims);
  const int64_t part = element_count(shape);
  std::vector<int64_t> own(static_cast<size_t>(std::min(part, row_of(shape)))), among;
  std::iota(own.begin(), own.end(), 0);
  for (int64_t element : own) among.push_back(index * part + element);
  const auto exact = [&](const Question& question, const std::vector<int64_t>& elements) {
    return middles(evaluate(oracle, question, static_cast<int>(output), Arithmetic(Arithmetic::Mode::kExact),
                            elements, row_of(shape)));
  };
  return exact(alone, own) == exact(whole, among);
}

bool has_same_bits(const std::vector<std::byte>& whole, const std::vector<std::byte>& alone, int64_t index) {
  const auto first = whole.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(index) * alone.size());
  return std::equal(alone.begin(), alone.end(), first);
}

}  // namespace assay::study
