// SPDX-License-Identifier: Apache-2.0
// How a probe has its path called: in this process, or in a worker.
#pragma once

#include <functional>

#include "kernels/core/device.h"
#include "properties/core/problem.h"

namespace assay {

struct PathCalls {
  std::function<Recipe(const Case& which)> recipe;
  // The outputs for these inputs.
  std::function<TensorBytes(const Case& which, const TensorBytes& inputs)> outputs;
};

// In this process. The device outlives them.
PathCalls calls_here(const Subject& subject, Device& device);

}  // namespace assay
