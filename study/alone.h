// SPDX-License-Identifier: Apache-2.0
// One entry of a batch without the others: a path that is batch-invariant gives it the same bits.
// The batch is the outermost axis of the first input.
#pragma once

#include <optional>

#include "oracles/core/oracle.h"
#include "properties/core/problem.h"

namespace assay::study {

struct Alone {
  int64_t index = 0;  // of the entry in the batch
  Dims dims = {};
  TensorBytes inputs = {};
};

// Absent if the op has no such axis, or if it has one entry here. `dims` and `inputs` are of the
// whole batch.
std::optional<Alone> alone_of(const Op& op, const Dims& dims, const TensorBytes& inputs, int64_t index);

// Whether an output lies along the batch, so that the entry has a part of it.
bool has_part(const Op& op, size_t output);

// Whether the exact values of the entry, at the first elements of its part of an output, do not
// depend on the other entries: else nothing is asked of a path. `whole` has the whole batch.
bool is_independent(const Op& op, const Oracle& oracle, size_t output, const Question& whole,
                    const Question& alone, int64_t index);

// Whether the entry's part of an output has the same bits.
bool has_same_bits(const std::vector<std::byte>& whole, const std::vector<std::byte>& alone, int64_t index);

}  // namespace assay::study
