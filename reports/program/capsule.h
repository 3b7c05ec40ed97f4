// SPDX-License-Identifier: Apache-2.0
// Tensors of a case on disk: .safetensors files that the program writes and reads. The file of a
// failure is a capsule. It holds the very tensors that were judged (properties/core/evidence.h).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/evidence.h"
#include "properties/core/verdict.h"
#include "reports/store/safetensors.h"

namespace assay {

// Writes DIRECTORY/<n>-<op>-<path>.safetensors: the evidence of a failure. The metadata hold the
// case line, the verdict, its reason, which tensors differ, why tensors are left out, and whether
// the outputs were given (`judge`). Returns the name of the file. Throws Error if it cannot be
// written.
std::string write_capsule(const std::filesystem::path& directory, size_t number, const Case& which,
                          const Verdict& verdict, bool is_given);
bool is_capsule_name(std::string_view file);  // whether it is of this form

// The tensors as a file, with the case line in its metadata.
TensorFile file_of(const Case& which, std::vector<NamedTensor> tensors);

struct Capsule {
  Case which;
  TensorFile file;
  bool is_given = false;  // the outputs are those of another program
};
bool is_capsule(const std::string& subject);  // whether it names a file rather than a case
// Throws Error (usage) unless the file names a case and holds tensors.
Capsule read_capsule(const std::filesystem::path& path);

// The inputs, or the outputs, of an op from a file, checked against the case. A shape in the file
// may have more or fewer axes of size 1 at its end. Booleans count as the numbers 0 and 1. All
// other tensors of a capsule may be present and are not read. Tensors without elements may be
// missing. Throws Error (usage) that names the file and the tensor; an unknown tensor is an error,
// too.
TensorBytes inputs_from(const TensorFile& file, std::string_view file_name, const Op& op, const Case& which);
TensorBytes outputs_from(const TensorFile& file, std::string_view file_name, const Op& op, const Case& which);
// Throws Error (usage) if the metadata name another case. Its state does not matter: inputs have no
// history.
void require_inputs_of(const Case& which, const TensorFile& file, std::string_view file_name);

}  // namespace assay
