// SPDX-License-Identifier: Apache-2.0
#include "reports/program/capsule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "properties/core/judge.h"

namespace assay {
namespace {

void add_tensors(TensorFile& file, const std::vector<TensorInfo>& infos, const Case& which,
                 TensorBytes bytes) {
  for (size_t i = 0; i < infos.size(); ++i) {
    file.tensors[std::string(infos[i].name)] = {.dtype = infos[i].dtype.value_or(which.dtype),
                                                .shape = shape_of(infos[i], which.dims),
                                                .bytes = std::move(bytes[i])};
  }
}

// They are drawn on the CPU, since a crash may have left the path's device unusable.
TensorBytes drawn_inputs(const Subject& subject, const Case& which) {
  const auto cpu = open_cpu();
  Problem problem(*subject.op, *subject.path, which, *cpu);
  problem.draw_inputs(which.seed);
  return problem.inputs();
}

// A path that throws leaves no outputs. The verdict has judged it for that.
void add_outputs_if_any(TensorFile& file, const Subject& subject, const Case& which, Device& device) {
  try {
    Problem problem(*subject.op, *subject.path, which, device);
    if (prepare(problem)) return;  // no judged call was made
    problem.run();
    add_outputs(file, problem);
  } catch (const std::exception&) {
  }
}

// The shape without axes of size 1 at its end: the same elements in the same order.
Extents without_trailing_ones(const Extents& shape) {
  int kept = shape.rank();
  while (kept > 0 && shape[kept - 1] == 1) --kept;
  Extents result;
  for (int axis = 0; axis < kept; ++axis) result.push_back(shape[axis]);
  return result;
}

// The elements of `tensor`. Booleans become numbers of `dtype`.
std::vector<std::byte> elements_of(const StoredTensor& tensor, DType dtype) {
  if (tensor.dtype) return tensor.bytes;
  return visit(dtype, [&]<class T>(std::type_identity<T>) {
    std::vector<T> numbers;
    for (std::byte value : tensor.bytes) numbers.push_back(from_double<T>(std::to_integer<int>(value)));
    const auto bytes = std::as_bytes(std::span(numbers));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
}

// An unknown name may be the misspelt name of a tensor that may be absent.
void require_known_names(const TensorFile& file, const Op& op) {
  std::vector<std::string_view> taken;
  for (const TensorInfo& info : op.inputs) taken.push_back(info.name);
  std::vector<std::string_view> known = taken;
  for (const TensorInfo& info : op.outputs) known.push_back(info.name);
  for (const auto& [name, tensor] : file.tensors) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw usage_error("'{}' is no tensor of {}, which takes {}", name, op.name, fmt::join(taken, ", "));
  }
}

}  // namespace

void write_capsule(const std::filesystem::path& directory, size_t number, const Subject& subject,
                   const Case& which, const Verdict& verdict, Device& device) {
  const int64_t bytes = tensor_bytes(*subject.op, which.dims, which.dtype);
  if (bytes > kLargestCapsule) {
    throw usage_error("the tensors take {} bytes; a capsule holds {}", bytes, kLargestCapsule);
  }
  TensorFile file;
  file.metadata = {{"case", which.to_string()},
                   {"verdict", std::string(name_of(verdict.kind))},
                   {"reason", verdict.reason}};
  add_tensors(file, subject.op->inputs, which, drawn_inputs(subject, which));
  const bool returns = verdict.kind != VerdictKind::kCrashed && verdict.kind != VerdictKind::kTimeout;
  if (returns) add_outputs_if_any(file, subject, which, device);
  write_safetensors(directory / fmt::format("{:03}-{}-{}.safetensors", number, which.op, which.path), file);
}

bool is_capsule(const std::string& subject) {
  return subject.ends_with(".safetensors");
}

Capsule read_capsule(const std::filesystem::path& path) {
  Capsule capsule{.which = {}, .file = read_safetensors(path)};
  const auto line = capsule.file.metadata.find("case");
  if (line == capsule.file.metadata.end())
    throw usage_error("{} is no capsule: its metadata name no case", path.string());
  capsule.which = parse_case(line->second);
  return capsule;
}

TensorBytes inputs_from(const TensorFile& file, const Op& op, const Case& which) {
  require_known_names(file, op);
  TensorBytes inputs;
  for (const TensorInfo& info : op.inputs) {
    const Extents expected = shape_of(info, which.dims);
    const auto found = file.tensors.find(std::string(info.name));
    if (found == file.tensors.end() && element_count(expected) == 0) {
      inputs.emplace_back();
      continue;
    }
    if (found == file.tensors.end()) throw usage_error("the tensor {} of {} is missing", info.name, op.name);
    const StoredTensor& tensor = found->second;
    const DType dtype = info.dtype.value_or(which.dtype);
    const ConstTensorView view{tensor.bytes.data(), tensor.dtype.value_or(dtype), tensor.shape,
                               dense_strides(tensor.shape)};
    const bool same_elements = without_trailing_ones(tensor.shape) == without_trailing_ones(expected);
    if (!same_elements) require_shape(info.name, view, expected);
    require_dtype(info.name, view, dtype);
    inputs.push_back(elements_of(tensor, dtype));
  }
  return inputs;
}

void add_outputs(TensorFile& file, const Problem& problem) {
  add_tensors(file, problem.op().outputs, problem.which(), problem.outputs());
}

}  // namespace assay
