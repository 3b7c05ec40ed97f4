// SPDX-License-Identifier: Apache-2.0
// A failure on disk: a .safetensors file with the tensors of a case and what the path made of them.
// Its metadata holds the case line, the verdict and its reason.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/core/device.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"
#include "reports/store/safetensors.h"

namespace assay {

// Writes DIRECTORY/<n>-<op>-<path>.safetensors. To get the outputs, the path runs once more on the
// inputs. They are left out if it throws. A path that crashed does not run again. Throws Error if
// the file cannot be written or the tensors are larger than kLargestCapsule.
inline constexpr int64_t kLargestCapsule = int64_t{256} << 20;  // [bytes]
void write_capsule(const std::filesystem::path& directory, size_t number, const Subject& subject,
                   const Case& which, const Verdict& verdict, Device& device);

struct Capsule {
  Case which;
  TensorFile file;
};
bool is_capsule(const std::string& subject);  // whether it names a file rather than a case
Capsule read_capsule(const std::filesystem::path& path);

// The inputs of an op from a file, checked against the case. A shape in the file may have more or
// fewer axes of size 1 at its end. Booleans count as the numbers 0 and 1. The op's outputs may be
// present and are not read. Tensors without elements may be missing. Throws Error (usage) that
// names the tensor; an unknown tensor is an error, too.
TensorBytes inputs_from(const TensorFile& file, const Op& op, const Case& which);
// The outputs of a problem under the op's names.
void add_outputs(TensorFile& file, const Problem& problem);

}  // namespace assay
