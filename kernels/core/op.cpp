// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/op.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"

namespace assay {

Dims::Dims(std::initializer_list<std::pair<Dim, int64_t>> values) {
  for (const auto& [dim, value] : values) values_.emplace_back(dim.key, value);
}

int64_t Dims::operator[](Dim dim) const {
  if (dim.place >= values_.size() || values_[dim.place].first != dim.key) {
    std::vector<std::string_view> keys;
    for (const auto& [key, value] : values_) keys.push_back(key);
    throw Error("'{}' is not dimension {} of ({})", dim.key, dim.place, fmt::join(keys, ", "));
  }
  return values_[dim.place].second;
}

int64_t Dims::at(std::string_view key) const {
  for (const auto& [name, value] : values_) {
    if (name == key) return value;
  }
  throw usage_error("the dimension '{}' is missing", key);
}

bool Dims::contains(std::string_view key) const {
  return std::ranges::any_of(values_, [&](const auto& entry) { return entry.first == key; });
}

void Dims::set(std::string_view key, int64_t value) {
  for (auto& [name, old] : values_) {
    if (name == key) {
      old = value;
      return;
    }
  }
  values_.emplace_back(key, value);
}

std::vector<std::string_view> axes_of(const TensorInfo& tensor) {
  constexpr auto kNone = std::string_view::npos;
  std::vector<std::string_view> axes;
  for (size_t begin = tensor.shape.find_first_not_of(' '); begin != kNone;) {
    const size_t end = tensor.shape.find(' ', begin);
    axes.push_back(tensor.shape.substr(begin, end == kNone ? kNone : end - begin));
    begin = tensor.shape.find_first_not_of(' ', end);
  }
  return axes;
}

Extents shape_of(const TensorInfo& tensor, const Dims& dims) {
  Extents shape;
  for (std::string_view axis : axes_of(tensor)) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(axis.data(), axis.data() + axis.size(), number);
    shape.push_back(error == std::errc() && end == axis.data() + axis.size() ? number : dims.at(axis));
  }
  return shape;
}

int64_t Config::operator[](std::string_view key) const {
  for (const auto& [name, value] : values_) {
    if (name == key) return value;
  }
  throw Error("the configuration {} has no value '{}'", to_string(), key);
}

std::string Config::to_string() const {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values_) parts.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kCpu:
      return "cpu";
    case DeviceKind::kCuda:
      return "cuda";
  }
  throw Error("DeviceKind({}) is not a device kind", static_cast<int>(kind));
}

Recipe f32_recipe(const Dims&, DType storage) {
  return {.storage = storage};
}

Path f32_path(std::string_view name, DeviceKind device, std::function<void(const Call&)> run,
              std::string_view summary) {
  return {.name = name,
          .device = device,
          .dtypes = {DType::kF32, DType::kF16, DType::kBF16},
          .deterministic = true,
          .recipe = f32_recipe,
          .unsupported = {},
          .run = std::move(run),
          .summary = summary};
}

const Path& Op::path(std::string_view wanted) const {
  for (const Path& path : paths) {
    if (path.name == wanted) return path;
  }
  std::vector<std::string> known;
  for (const Path& path : paths) known.emplace_back(path.name);
  throw usage_error("the op '{}' has no path '{}'{}", name, excerpt(wanted),
                    did_you_mean(wanted, known, "it has"));
}

void require_places(const Op& op) {
  const auto require = [&](std::string_view kind, std::string_view name, size_t declared, size_t place) {
    if (declared == place) return;
    throw Error("{}: the {} '{}' stands in place {} of the table; it is declared in place {}", op.name, kind,
                name, place, declared);
  };
  for (size_t i = 0; i < op.dims.size(); ++i) require("dimension", op.dims[i].key, op.dims[i].place, i);
  for (size_t i = 0; i < op.inputs.size(); ++i) require("input", op.inputs[i].name, op.inputs[i].place, i);
  for (size_t i = 0; i < op.outputs.size(); ++i)
    require("output", op.outputs[i].name, op.outputs[i].place, i);
  for (const Path& path : op.paths) {
    const auto require_dim = [&](std::string_view what, const Dim& dim) {
      if (dim.place < op.dims.size() && op.dims[dim.place].key == dim.key) return;
      throw Error("{}/{}: {} has the dimension '{}' in place {}, which the op has not", op.name, path.name,
                  what, dim.key, dim.place);
    };
    for (const ProductEdge& edge : path.edges) {
      for (const Dim& dim : edge.dims) require_dim("an edge", dim);
    }
    for (const OwnSize& own : path.own_sizes) require_dim("a size of its own", own.dim);
  }
}

void require_dims(const Op& op, const Dims& dims) {
  std::vector<std::string> known;
  for (const DimInfo& dim : op.dims) known.emplace_back(dim.key);
  for (const auto& [key, size] : dims.values()) {
    if (std::ranges::count(known, key) != 0) continue;
    throw usage_error("{} has no dimension '{}'{}", op.name, excerpt(key),
                      did_you_mean(key, known, "it has"));
  }
  for (const DimInfo& dim : op.dims) {
    const int64_t size = dims.at(dim.key);
    if (size < dim.min || size > dim.max) {
      throw usage_error("{}: {}={} is outside {}..{}", op.name, dim.key, size, dim.min, dim.max);
    }
  }
}

int64_t tensor_bytes(const Op& op, const Dims& dims, DType storage) {
  constexpr int64_t kMost = int64_t{1} << 62;
  __int128 bytes = 0;
  for (const auto* tensors : {&op.inputs, &op.outputs}) {
    for (const TensorInfo& tensor : *tensors) {
      bytes += static_cast<__int128>(element_count(shape_of(tensor, dims))) *
               static_cast<int64_t>(size_of(tensor.dtype.value_or(storage)));
    }
  }
  return bytes < kMost ? static_cast<int64_t>(bytes) : kMost;
}

}  // namespace assay
