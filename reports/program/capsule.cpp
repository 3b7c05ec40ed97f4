// SPDX-License-Identifier: Apache-2.0
#include "reports/program/capsule.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "kernels/core/printable.h"

namespace assay {
namespace {

constexpr std::string_view kSuffix = ".safetensors";
constexpr const char* kGiven = "given";  // the outputs of which this is said

// What `read` returns. Its errors name the file.
template <class Read>
auto of_file(std::string_view file_name, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw usage_error("{}: {}", excerpt(file_name), error.what());
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

std::string_view without_suffixes(std::string_view name) {
  const auto ends = [&](std::string_view suffix) { return name.ends_with(suffix); };
  const auto suffix = std::ranges::find_if(kEvidenceSuffixes, ends);
  return suffix == kEvidenceSuffixes.end() ? name
                                           : without_suffixes(name.substr(0, name.size() - suffix->size()));
}

// An unknown name may be the misspelt name of a tensor that may be absent.
void require_known_names(const TensorFile& file, const Op& op, std::string_view has) {
  const auto is_known = [&](std::string_view name) {
    return std::ranges::count(op.inputs, name, &TensorInfo::name) != 0 ||
           std::ranges::count(op.outputs, name, &TensorInfo::name) != 0;
  };
  for (const auto& [name, tensor] : file.tensors) {
    if (is_known(name) || is_known(without_suffixes(name))) continue;
    throw usage_error("'{}' is no tensor of {}, which {}", excerpt(name), op.name, has);
  }
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string_view> names;
  for (const TensorInfo& info : infos) names.push_back(info.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

TensorBytes tensors_from(const TensorFile& file, const std::vector<TensorInfo>& infos, const Op& op,
                         const Case& which) {
  TensorBytes tensors;
  for (const TensorInfo& info : infos) {
    const Extents expected = shape_of(info, which.dims);
    const auto found = file.tensors.find(std::string(info.name));
    if (found == file.tensors.end() && element_count(expected) == 0) {
      tensors.emplace_back();
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
    tensors.push_back(elements_of(tensor, dtype));
  }
  return tensors;
}

}  // namespace

std::string write_capsule(const std::filesystem::path& directory, size_t number, const Case& which,
                          const Verdict& verdict, bool is_given) {
  const Evidence& evidence = *verdict.evidence;
  TensorFile file = file_of(which, evidence.tensors);
  file.metadata["verdict"] = name_of(verdict.kind);
  file.metadata["reason"] = verdict.reason;
  if (is_given) file.metadata["outputs"] = kGiven;
  if (!evidence.differs.empty()) file.metadata["differs"] = evidence.differs;
  if (!evidence.left_out.empty()) file.metadata["left_out"] = evidence.left_out;
  std::string name = fmt::format("{:03}-{}-{}{}", number, which.op, which.path, kSuffix);
  write_safetensors(directory / name, file);
  return name;
}

bool is_capsule_name(std::string_view file) {
  const size_t digits = std::min(file.find_first_not_of("0123456789"), file.size());
  return digits >= 3 && file.substr(digits).starts_with('-') && file.ends_with(kSuffix);
}

TensorFile file_of(const Case& which, std::vector<NamedTensor> tensors) {
  TensorFile file{.tensors = {}, .metadata = {{"case", which.to_string()}}};
  for (NamedTensor& tensor : tensors) {
    file.tensors[std::move(tensor.name)] = {
        .dtype = tensor.dtype, .shape = tensor.shape, .bytes = std::move(tensor.bytes)};
  }
  return file;
}

bool is_capsule(const std::string& subject) {
  return subject == "-" || subject.ends_with(kSuffix);
}

Capsule read_capsule(const std::filesystem::path& path) {
  Capsule capsule{.which = {}, .file = read_safetensors(path)};
  const auto line = capsule.file.metadata.find("case");
  if (line == capsule.file.metadata.end())
    throw usage_error("{} is no capsule: its metadata name no case", excerpt(path.string()));
  const auto left_out = capsule.file.metadata.find("left_out");
  if (capsule.file.tensors.empty() && left_out != capsule.file.metadata.end()) {
    throw usage_error("{} holds no tensors: {}; its case is {}", excerpt(path.string()),
                      excerpt(left_out->second), excerpt(line->second));
  }
  capsule.which = of_file(path.string(), [&] { return parse_case(line->second); });
  const auto outputs = capsule.file.metadata.find("outputs");
  capsule.is_given = outputs != capsule.file.metadata.end() && outputs->second == kGiven;
  return capsule;
}

TensorBytes inputs_from(const TensorFile& file, std::string_view file_name, const Op& op, const Case& which) {
  return of_file(file_name, [&] {
    require_known_names(file, op, fmt::format("takes {}", names_of(op.inputs)));
    return tensors_from(file, op.inputs, op, which);
  });
}

TensorBytes outputs_from(const TensorFile& file, std::string_view file_name, const Op& op,
                         const Case& which) {
  return of_file(file_name, [&] {
    require_known_names(file, op, fmt::format("gives {}", names_of(op.outputs)));
    return tensors_from(file, op.outputs, op, which);
  });
}

void require_inputs_of(const Case& which, const TensorFile& file, std::string_view file_name) {
  const auto line = file.metadata.find("case");
  if (line == file.metadata.end()) return;
  Case of_inputs = of_file(file_name, [&] { return parse_case(line->second); });
  of_inputs.path = which.path;  // paths of an op share their inputs
  of_inputs.state = which.state;
  if (of_inputs == which) return;
  throw usage_error("{}: it holds the inputs of {}, not of {}", excerpt(file_name),
                    excerpt(of_inputs.to_string()), excerpt(which.to_string()));
}

}  // namespace assay
