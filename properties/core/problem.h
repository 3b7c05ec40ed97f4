// SPDX-License-Identifier: Apache-2.0
// The tensors of one case on one device, ready to run: the judge verifies a problem, and the timer times that
// same one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/case.h"
#include "kernels/core/device.h"
#include "oracles/core/oracle.h"
#include "properties/core/guarded_tensor.h"

namespace assay {

// An op with its oracle: what judging needs besides a path. Both outlive every subject.
struct Subject {
  const Op* op;
  const Path* path;
  const Oracle* oracle;
};

// Dense tensor contents in row-major order, one entry per tensor of the op's table.
using TensorBytes = std::vector<std::vector<std::byte>>;

class Problem {
 public:
  // Throws Error (usage) for dimensions outside the op's ranges, Error (device) if memory does not suffice.
  Problem(const Op& op, const Path& path, const Case& which, Device& device);

  void draw_inputs(uint64_t seed);
  void set_inputs(const TensorBytes& inputs);
  void poison_outputs(Poison poison);
  Call call() const;  // on the tensors where the path sees them
  // Enqueues one call, without waiting for it.
  void enqueue();
  // Runs one call to its end and brings the outputs back.
  void run();

  TensorBytes inputs() const;
  TensorBytes outputs() const;
  Question question() const;  // views of the inputs in host memory, alive as long as this

  std::vector<GuardedTensor>& input_tensors() { return inputs_; }
  std::vector<GuardedTensor>& output_tensors() { return outputs_; }
  const Case& which() const { return case_; }
  const Op& op() const { return *op_; }
  Device& device() const { return *device_; }

 private:
  const Op* op_;
  const Path* path_;
  Case case_;
  Device* device_;
  std::vector<GuardedTensor> inputs_;
  std::vector<GuardedTensor> outputs_;
};

}  // namespace assay
