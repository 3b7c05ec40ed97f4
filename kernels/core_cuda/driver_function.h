// SPDX-License-Identifier: Apache-2.0
// Functions of the CUDA driver, looked up at run time, so that programs start without a driver.
#pragma once

#include <cudaTypedefs.h>
#include <cuda_runtime.h>

#include "kernels/core/error.h"
#include "kernels/core_cuda/cuda_check.h"

namespace assay {

// The function of this name in the form that it got with a version of CUDA, such as 12000. Throws
// Error (device) if the driver has none.
template <class Function>
Function driver_function(const char* name, unsigned int version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  cuda_check(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result),
             "cudaGetDriverEntryPointByVersion");
#else
  static_cast<void>(version);
  cuda_check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), "cudaGetDriverEntryPoint");
#endif
  if (result != cudaDriverEntryPointSuccess || found == nullptr)
    throw device_error("cuda: the driver has no {}", name);
  return reinterpret_cast<Function>(found);
}

}  // namespace assay
