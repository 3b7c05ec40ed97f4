// SPDX-License-Identifier: Apache-2.0
#include "probe/calls.h"

#include <memory>

#include "properties/core/plain_call.h"

namespace assay {

PathCalls calls_here(const Subject& subject, Device& device) {
  const auto calls = std::make_shared<PlainCalls>(subject, device);
  return {
      .recipe = [path = subject.path](const Case& which) { return path->recipe(which.dims, which.dtype); },
      .outputs = [calls](const Case& which,
                         const TensorBytes& inputs) { return calls->outputs(which, inputs); }};
}

}  // namespace assay
