// SPDX-License-Identifier: Apache-2.0
// The tensors of a failure as they were judged. A failure that depends on history or chance cannot
// be made again, so it is kept as it happened.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "properties/core/problem.h"

namespace assay {

// [bytes] The tensors of a larger failure are left out.
inline constexpr int64_t kLargestEvidence = int64_t{256} << 20;

struct NamedTensor {
  std::string name;
  DType dtype;
  Extents shape;
  std::vector<std::byte> bytes;  // dense
};

// Tensors of an op's table under their names, each followed by the suffix.
std::vector<NamedTensor> named(const std::vector<TensorInfo>& infos, const Case& which, TensorBytes bytes,
                               std::string_view suffix = "");

// Suffixes of what is not an input or an output of the judged call. They add up: an output of a
// step and that of an untuned call on the same inputs are out.step and out.step.untuned_call.
inline constexpr std::string_view kSecondRun = ".second_run";      // an output of the second run
inline constexpr std::string_view kUntunedCall = ".untuned_call";  // an output in a new context
inline constexpr std::string_view kAfterCall = ".after_call";      // an input that the path changed
inline constexpr std::string_view kOfStep = ".step";               // a tensor of a step that failed
inline constexpr std::array kEvidenceSuffixes{kSecondRun, kUntunedCall, kAfterCall, kOfStep};

struct Evidence {
  std::vector<NamedTensor> tensors;  // first the inputs of the judged call, then its outputs
  std::string differs;               // "1 of 90 elements of out and out.second_run"; may be empty
  std::string left_out;              // why tensors are missing

  // Either leaves all tensors out once they are too large.
  void add(std::vector<NamedTensor> more);
  void add(Evidence other);
  // Adds those that differ from the tensor whose name has one suffix less, and says where.
  void add_differing(std::vector<NamedTensor> others);
};

// Evidence that has no tensors yet. None can be added if those of the problem are too large.
Evidence evidence_for(const Problem& problem);

}  // namespace assay
