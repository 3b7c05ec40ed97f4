// SPDX-License-Identifier: Apache-2.0
// Calls of a path on given inputs, without a judge.
#pragma once

#include <functional>
#include <memory>

#include "properties/core/channel.h"
#include "properties/core/precheck.h"
#include "properties/core/problem.h"

namespace assay {

// All calls share a context, whose tuner tries nothing.
class PlainCalls {
 public:
  PlainCalls(const Subject& subject, Device& device);

  // What the path says of a case before it runs.
  Said says(const Case& which) const;
  // Throws what Problem's constructor and Problem::run() throw.
  TensorBytes outputs(const Case& which, const TensorBytes& inputs) const;

 private:
  Subject subject_;
  Device& device_;
  std::shared_ptr<Context> context_;
};

// The same in a worker.
//   request {"call": line} with the inputs; without them the path says what it says of the case
//   answer  the outputs, or {"recipe"}, or {"verdict", "reason"}
Message answer_call(const PlainCalls& calls, const Message& request, Channel& channel);

}  // namespace assay
