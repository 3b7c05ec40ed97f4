// SPDX-License-Identifier: Apache-2.0
#include "kernels/core_cuda/cuda_check.h"

#include <atomic>
#include <cstdio>

#include "kernels/core/error.h"

namespace assay {

void cuda_check(cudaError_t result, std::string_view operation, std::source_location where) {
  if (result == cudaSuccess) return;
  cudaGetLastError();
  const std::string message = fmt::format("cuda: {} failed: {} ({})", operation, cudaGetErrorName(result),
                                          cudaGetErrorString(result));
  if (result == cudaErrorMemoryAllocation) throw OutOfMemory(message, where);
  throw Error(Error::Kind::kDevice, message, where);
}

void cuda_check_noexcept(cudaError_t result, std::string_view operation) noexcept {
  if (result == cudaSuccess) return;
  cudaGetLastError();
  static std::atomic_flag is_told;
  if (is_told.test_and_set()) return;
  std::fprintf(stderr, "cuda: %.*s failed: %s (%s)\n", static_cast<int>(operation.size()), operation.data(),
               cudaGetErrorName(result), cudaGetErrorString(result));
}

}  // namespace assay
