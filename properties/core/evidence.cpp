// SPDX-License-Identifier: Apache-2.0
#include "properties/core/evidence.h"

#include <algorithm>

namespace assay {
namespace {

std::string why_too_large(int64_t bytes) {
  return fmt::format("the tensors take {} bytes; at most {} are kept", bytes, kLargestEvidence);
}

int64_t differing_elements(const NamedTensor& a, const NamedTensor& b) {
  const size_t bytes = size_of(a.dtype);
  int64_t count = 0;
  for (size_t at = 0; at < a.bytes.size(); at += bytes) {
    count += !std::equal(&a.bytes[at], &a.bytes[at] + bytes, &b.bytes[at]);
  }
  return count;
}

}  // namespace

std::vector<NamedTensor> named(const std::vector<TensorInfo>& infos, const Case& which, TensorBytes bytes,
                               std::string_view suffix) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < infos.size(); ++i) {
    tensors.push_back({.name = fmt::format("{}{}", infos[i].name, suffix),
                       .dtype = infos[i].dtype.value_or(which.dtype),
                       .shape = shape_of(infos[i], which.dims),
                       .bytes = std::move(bytes[i])});
  }
  return tensors;
}

void Evidence::add(std::vector<NamedTensor> more) {
  if (!left_out.empty()) return;
  std::ranges::move(more, std::back_inserter(tensors));
  int64_t bytes = 0;
  for (const NamedTensor& tensor : tensors) bytes += static_cast<int64_t>(tensor.bytes.size());
  if (bytes <= kLargestEvidence) return;
  tensors.clear();
  differs.clear();
  left_out = why_too_large(bytes);
}

void Evidence::add(Evidence other) {
  if (differs.empty()) differs = std::move(other.differs);
  add(std::move(other.tensors));
  if (left_out.empty()) left_out = std::move(other.left_out);
}

void Evidence::add_differing(std::vector<NamedTensor> others) {
  if (!left_out.empty()) return;
  std::erase_if(others, [&](const NamedTensor& other) {
    const std::string name = other.name.substr(0, other.name.rfind('.'));
    const auto one = std::ranges::find(tensors, name, &NamedTensor::name);
    if (one == tensors.end()) throw Error("there is no {} beside {}", name, other.name);
    const int64_t count = differing_elements(*one, other);
    if (count == 0) return true;
    differs += fmt::format("{}{} of {} elements of {} and {}", differs.empty() ? "" : "; ", count,
                           element_count(one->shape), name, other.name);
    return false;
  });
  add(std::move(others));
}

Evidence evidence_for(const Problem& problem) {
  const Case& which = problem.which();
  const int64_t bytes = tensor_bytes(problem.op(), which.dims, which.dtype);
  Evidence evidence;
  if (bytes > kLargestEvidence) evidence.left_out = why_too_large(bytes);
  return evidence;
}

}  // namespace assay
