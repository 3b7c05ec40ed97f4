// SPDX-License-Identifier: Apache-2.0
// A failure on disk: the tensors of a case and what the path made of them, in a .safetensors file whose
// metadata holds the case line, the verdict and its reason.
#pragma once

#include <filesystem>
#include <string>

#include "kernels/core/device.h"
#include "properties/core/problem.h"
#include "properties/core/verdict.h"
#include "reports/store/safetensors.h"

namespace assay {

// Writes DIRECTORY/<n>-<op>-<path>.safetensors. The outputs are what the path makes of the inputs when it runs
// once more; they are left out if it throws, and a path that crashed does not run again. Throws Error if the
// file cannot be written or the tensors are larger than kLargestCapsule.
inline constexpr int64_t kLargestCapsule = int64_t{256} << 20;  // [bytes]
void write_capsule(const std::filesystem::path& directory, size_t number, const Subject& subject,
                   const Case& which, const Verdict& verdict, Device& device);

struct Capsule {
  Case which;
  TensorFile file;
};
bool is_capsule(const std::string& subject);  // a file's name rather than a case line
Capsule read_capsule(const std::filesystem::path& path);

// The inputs of an op from a file, checked against the case. The file may have more or fewer axes of size 1 at
// the end of a shape, booleans for numbers (0 and 1), and the op's outputs, which are not read; it may lack
// tensors that have no elements. Throws Error (usage) that names the tensor, also one that the op does not have.
TensorBytes inputs_from(const TensorFile& file, const Op& op, const Case& which);
// The outputs of a problem under the op's names.
void add_outputs(TensorFile& file, const Problem& problem);

}  // namespace assay
