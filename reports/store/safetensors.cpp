// SPDX-License-Identifier: Apache-2.0
#include "reports/store/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/core/json.h"
#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "properties/core/host_memory.h"
#include "reports/store/files.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and is not swapped here");

constexpr std::string_view kMetadata = "__metadata__";
constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;

// The dtypes of a StoredTensor. An absent one stands for booleans.
constexpr std::array<std::optional<DType>, 5> kDTypes{DType::kF64, DType::kF32, DType::kF16, DType::kBF16,
                                                      std::nullopt};

std::string_view stored_name(std::optional<DType> dtype) {
  if (!dtype) return "BOOL";
  switch (*dtype) {
    case DType::kF64:
      return "F64";
    case DType::kF32:
      return "F32";
    case DType::kF16:
      return "F16";
    case DType::kBF16:
      return "BF16";
  }
  throw_bad_dtype(*dtype);
}

int64_t stored_bytes(std::optional<DType> dtype, const Extents& shape) {
  const int64_t count = element_count(shape), size = dtype ? static_cast<int64_t>(size_of(*dtype)) : 1;
  if (count > (int64_t{1} << 62) / size)
    throw usage_error("the shape {} has more than 2^62 bytes", shape.to_string());
  return count * size;
}

// Throws if a boolean element is neither 0 nor 1.
void require_boolean(const StoredTensor& tensor, std::string_view where) {
  if (tensor.dtype) return;
  const auto wrong = std::ranges::find_if(tensor.bytes, [](std::byte value) { return value > std::byte{1}; });
  if (wrong == tensor.bytes.end()) return;
  throw usage_error("{}: element {} of its BOOL is {}, expected 0 or 1", where, wrong - tensor.bytes.begin(),
                    std::to_integer<int>(*wrong));
}

// ---- reading

// Where a tensor lies in the data, according to the header.
struct Placement {
  std::string name;
  std::optional<DType> dtype;
  Extents shape;
  int64_t begin;  // [bytes] from the start of the data
  int64_t end;
};

std::optional<DType> parse_stored_dtype(const Json& json, std::string_view where) {
  const std::string text = json.is_string() ? json.get<std::string>() : json.dump();
  for (const std::optional<DType> dtype : kDTypes) {
    if (stored_name(dtype) == text) return dtype;
  }
  throw usage_error("{}: the dtype is '{}', expected F64, F32, F16, BF16 or BOOL", where, excerpt(text));
}

std::vector<int64_t> parse_sizes(const Json& entry, const char* key, std::string_view where) {
  const Json& json = entry[key];
  const auto is_size = [](const Json& item) {
    return item.is_number_unsigned() && item.get<uint64_t>() <= uint64_t{1} << 62;
  };
  if (!json.is_array() || !std::ranges::all_of(json, is_size)) {
    throw usage_error("{}: {} is {}, expected an array of non-negative integers", where, key,
                      excerpt(json.dump()));
  }
  return json.get<std::vector<int64_t>>();
}

int64_t bytes_of(const Placement& placement, std::string_view where) {
  try {
    return stored_bytes(placement.dtype, placement.shape);
  } catch (const Error& error) {
    throw usage_error("{}: {}", where, error.what());
  }
}

Placement parse_entry(const std::string& name, const Json& entry, std::string_view source) {
  const std::string where = fmt::format("{}: tensor '{}'", source, excerpt(name));
  for (const char* key : {"dtype", "shape", "data_offsets"}) {
    if (!entry.is_object() || !entry.contains(key)) throw usage_error("{}: {} is missing", where, key);
  }
  Placement placement{
      .name = name, .dtype = parse_stored_dtype(entry["dtype"], where), .shape = {}, .begin = 0, .end = 0};
  const std::vector<int64_t> shape = parse_sizes(entry, "shape", where);
  if (shape.size() > kMaxRank) {
    throw usage_error("{}: the shape ({}) has more than {} dimensions", where,
                      excerpt(fmt::format("{}", fmt::join(shape, ", "))), kMaxRank);
  }
  for (int64_t size : shape) placement.shape.push_back(size);
  const std::vector<int64_t> offsets = parse_sizes(entry, "data_offsets", where);
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    throw usage_error("{}: data_offsets are {}, expected [begin, end]", where,
                      excerpt(entry["data_offsets"].dump()));
  }
  placement.begin = offsets[0];
  placement.end = offsets[1];
  const int64_t bytes = bytes_of(placement, where);
  if (placement.end - placement.begin != bytes) {
    throw usage_error("{}: {} bytes of data, but {} of shape {} take {}", where,
                      placement.end - placement.begin, stored_name(placement.dtype),
                      placement.shape.to_string(), bytes);
  }
  return placement;
}

// Throws unless the tensors fill the data without gap or overlap.
void require_tiling(std::vector<Placement> placements, int64_t data_bytes, std::string_view source) {
  std::ranges::sort(placements, {},
                    [](const Placement& tensor) { return std::pair(tensor.begin, tensor.end); });
  int64_t filled = 0;
  for (const Placement& tensor : placements) {
    if (tensor.end > data_bytes) {
      throw usage_error("{}: tensor '{}' ends at byte {} of the data, which has {}: the file is cut short",
                        source, excerpt(tensor.name), tensor.end, data_bytes);
    }
    if (tensor.begin != filled) {
      throw usage_error("{}: tensor '{}' begins at byte {} of the data, {} the end {} of the one before",
                        source, excerpt(tensor.name), tensor.begin,
                        tensor.begin < filled ? "inside, before" : "after", filled);
    }
    filled = tensor.end;
  }
  if (filled != data_bytes) {
    throw usage_error("{}: {} bytes follow the last tensor", source, data_bytes - filled);
  }
}

Json parse_header(std::string_view header, std::string_view source) {
  Json json = parse_json(header, fmt::format("{}: the header", source));
  if (!json.is_object())
    throw usage_error("{}: not a safetensors file: the header is no JSON object", source);
  return json;
}

std::map<std::string, std::string> parse_metadata(const Json& json, std::string_view source) {
  const auto is_text = [](const Json& value) { return value.is_string(); };
  if (!json.is_object() || !std::ranges::all_of(json, is_text)) {
    throw usage_error("{}: {} is {}, expected an object of strings", source, kMetadata, excerpt(json.dump()));
  }
  return json.get<std::map<std::string, std::string>>();
}

// ---- writing

void require_consistent(const std::string& name, const StoredTensor& tensor) {
  const int64_t bytes = stored_bytes(tensor.dtype, tensor.shape);
  if (static_cast<int64_t>(tensor.bytes.size()) != bytes) {
    throw Error("tensor '{}' has {} bytes, but {} of shape {} take {}", name, tensor.bytes.size(),
                stored_name(tensor.dtype), tensor.shape.to_string(), bytes);
  }
  require_boolean(tensor, fmt::format("tensor '{}'", name));
  if (name == kMetadata) throw usage_error("a tensor cannot be named {}", kMetadata);
}

std::string header_text(const std::vector<const std::pair<const std::string, StoredTensor>*>& order,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(kMetadata)] = metadata;
  size_t offset = 0;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    header[name] = {{"dtype", stored_name(tensor.dtype)},
                    {"shape", tensor.shape.values()},
                    {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

}  // namespace

TensorFile parse_safetensors(std::string_view content, std::string_view file_name) {
  const std::string source = excerpt(file_name);
  if (content.size() < kLengthBytes) {
    throw usage_error("{}: not a safetensors file: {} bytes are less than the header's length field", source,
                      content.size());
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, content.data(), kLengthBytes);
  content.remove_prefix(kLengthBytes);
  if (header_bytes > static_cast<uint64_t>(kMaxTensorHeader)) {
    throw usage_error(
        "{}: not a safetensors file: by its first 8 bytes, the header has {} bytes; at most {} are read",
        source, header_bytes, kMaxTensorHeader);
  }
  if (header_bytes > content.size()) {
    throw usage_error("{}: cut short: a header of {} bytes, {} are there", source, header_bytes,
                      content.size());
  }
  const Json header = parse_header(content.substr(0, header_bytes), source);
  const std::string_view data = content.substr(header_bytes);

  TensorFile file;
  std::vector<Placement> placements;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) {
      file.metadata = parse_metadata(entry, source);
    } else {
      placements.push_back(parse_entry(name, entry, source));
    }
  }
  require_tiling(placements, static_cast<int64_t>(data.size()), source);
  for (const Placement& placement : placements) {
    const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
    StoredTensor& tensor = file.tensors[placement.name];
    tensor = {placement.dtype, placement.shape, {bytes + placement.begin, bytes + placement.end}};
    require_boolean(tensor, fmt::format("{}: tensor '{}'", source, excerpt(placement.name)));
  }
  return file;
}

TensorFile read_safetensors(const std::filesystem::path& path) {
  // The tensors are copied from the file's bytes, and so are those bytes while they come.
  const auto most = static_cast<int64_t>(std::min(available_host_memory() / 4, 0x1p62));
  return parse_safetensors(read_file(path, most), path.string());
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  std::vector<const std::pair<const std::string, StoredTensor>*> order;
  for (const auto& entry : file.tensors) {
    require_consistent(entry.first, entry.second);
    order.push_back(&entry);
  }
  // Wider elements come first, which keeps every tensor aligned to its elements.
  std::ranges::stable_sort(order, std::greater(),
                           [](const auto* entry) { return stored_bytes(entry->second.dtype, {}); });

  const std::string header = header_text(order, file.metadata);
  const auto length = std::bit_cast<std::array<char, kLengthBytes>>(uint64_t{header.size()});
  std::vector<std::string_view> parts{{length.data(), length.size()}, header};
  for (const auto* entry : order) {
    const std::vector<std::byte>& bytes = entry->second.bytes;
    parts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  write_file_atomically(path, parts);
}

}  // namespace assay
