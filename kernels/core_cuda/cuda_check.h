// SPDX-License-Identifier: Apache-2.0
// Every CUDA call goes through cuda_check, every launch is followed by cuda_check_launch.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string_view>

namespace assay {

// Throws Error (device), OutOfMemory if that is it, with the operation and the name and text of the
// error, unless `result` is success. Clears the error from the runtime's record, so that the next
// call is not blamed for it. An error that poisoned the context stays.
void cuda_check(cudaError_t result, std::string_view operation,
                std::source_location where = std::source_location::current());

// For destructors: prints to stderr instead of throwing. Only the first failure of the process,
// since a poisoned context fails each call.
void cuda_check_noexcept(cudaError_t result, std::string_view operation) noexcept;

// Checks that the launch just before was accepted. An error while the kernel runs shows at a later
// call.
inline void cuda_check_launch(std::string_view kernel,
                              std::source_location where = std::source_location::current()) {
  cuda_check(cudaGetLastError(), kernel, where);
}

}  // namespace assay
