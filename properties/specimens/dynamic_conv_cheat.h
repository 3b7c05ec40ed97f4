// SPDX-License-Identifier: Apache-2.0
// What the hostile paths are made from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "properties/core/planted.h"

namespace assay::dynamic_conv {

inline constexpr int kJudgedCalls = 10;  // that a path may well take for those of a judge

size_t output_bytes(const Call& call);                  // of f32
Call rows_of(Call call, int64_t first, int64_t count);  // entries of the batch; tensors are dense
bool is_poison(float value);                            // of an output that nobody wrote

// A run that gets the number of its call in this process, from 0.
Run counted(const std::function<void(const Call&, int number)>& run);

// On a CPU:
Specimen cheat(std::string_view path, std::string_view fault, const Run& run);
Specimen without_promise(Specimen specimen);  // that equal inputs give equal bits
void compute(const Call& call);               // honestly

}  // namespace assay::dynamic_conv
