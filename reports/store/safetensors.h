// SPDX-License-Identifier: Apache-2.0
// Tensors in a .safetensors file, which other tools read and write, too.
//
//   8 bytes   length of the header, little-endian
//   header    a JSON object, padded with spaces to a multiple of 8 bytes:
//             {"x": {"dtype": "BF16", "shape": [2, 17], "data_offsets": [0, 68]},
//              "__metadata__": {"case": "..."}}
//   data      the tensors' bytes, row-major, little-endian, one after the other without gaps
//
// Source: the format as documented by Hugging Face.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/tensor.h"

namespace assay {

struct StoredTensor {
  // Absent for booleans: each element is a byte that holds 0 or 1.
  std::optional<DType> dtype = DType::kF32;
  Extents shape;
  std::vector<std::byte> bytes;  // row-major: the elements and nothing else

  bool operator==(const StoredTensor&) const = default;
};

struct TensorFile {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> metadata;

  bool operator==(const TensorFile&) const = default;
};

// [bytes] The longest header that is accepted, as in other readers.
inline constexpr int64_t kMaxTensorHeader = 100'000'000;

// These throw Error (usage). The message starts with the path (or `source`) and names the tensor
// and its values.
TensorFile read_safetensors(const std::filesystem::path& path);
TensorFile parse_safetensors(std::string_view content, std::string_view source);
// Whole or not at all.
void write_safetensors(const std::filesystem::path& path, const TensorFile& file);

}  // namespace assay
