// SPDX-License-Identifier: Apache-2.0
#include "bench/core/next_call.h"

#include <algorithm>
#include <exception>
#include <span>

namespace assay {
namespace {

TensorBytes downloaded(Problem& problem) {
  for (GuardedTensor& tensor : problem.output_tensors()) tensor.download();
  TensorBytes outputs = problem.outputs();
  for (std::vector<std::byte>& bytes : outputs) {
    for (std::byte& byte : bytes) byte ^= std::byte{1};
  }
  return outputs;
}

std::string difference_of_next_call(Problem& problem) {
  const TensorBytes here = downloaded(problem);
  problem.enqueue();
  for (const GuardedTensor& tensor : problem.output_tensors()) problem.device().flip(tensor.device_span());
  const TensorBytes there = downloaded(problem);
  for (size_t i = 0; i < here.size(); ++i) {
    const TensorView view = problem.output_tensors()[i].host_view();
    const size_t size = size_of(view.dtype);
    const std::span<const std::byte> a = here[i], b = there[i];
    int64_t count = 0, first = -1;
    for (int64_t element = 0; element < view.size(); ++element) {
      const size_t at = static_cast<size_t>(element) * size;
      if (std::ranges::equal(a.subspan(at, size), b.subspan(at, size))) continue;
      if (count++ == 0) first = element;
    }
    if (count == 0) continue;
    const std::string_view name = problem.op().outputs[i].name;
    return fmt::format(
        "; against the call after that, {} of {} elements of {} differ, first {}: {:.9g}, then {:.9g}", count,
        view.size(), name, element_name(name, first, view.shape), read_element(a, view.dtype, first),
        read_element(b, view.dtype, first));
  }
  return "; the call after that gives the same bits as it";
}

}  // namespace

std::string against_next_call(Problem& problem) {
  try {
    return difference_of_next_call(problem);
  } catch (const std::exception& error) {
    return fmt::format("; the call after that ends with {}", error.what());
  }
}

}  // namespace assay
