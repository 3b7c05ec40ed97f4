// SPDX-License-Identifier: Apache-2.0
// The tensors of one case on one device, ready to run: the judge verifies a problem, and the timer times that
// same one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/device.h"
#include "oracles/core/oracle.h"
#include "properties/core/case.h"
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
  // Throws Error (usage) for dimensions outside the op's ranges, Error (device) if memory does not suffice. Without a
  // context, a new one.
  Problem(const Op& op, const Path& path, const Case& which, Device& device,
          std::shared_ptr<Context> context = nullptr);

  // Values, and with them versions: an input that gets values again which it had before gets their version again.
  // Inputs before number `first` stay.
  void draw_inputs(uint64_t seed, size_t first = 0);
  void draw_input(uint64_t seed, size_t number);
  void set_inputs(const TensorBytes& inputs);
  // Exchanges all inputs for a second set of tensors, without values at first. Throws Error (device) if memory does not
  // suffice.
  void swap_inputs();
  void poison_other_inputs();  // those of the set that is not in use
  // Exchanges the memory of inputs but the first, two by two, where it has one size. The contents have to be set anew.
  void swap_memory_of_inputs();
  void poison_outputs(Poison poison);
  Call call() const;  // on the tensors where the path sees them
  // Enqueues one call, or the graph of one, without waiting for it.
  void enqueue();
  // Runs one call to its end and brings the outputs back.
  void run();
  // The same for a direct call on this stream, also after capture().
  void run_directly(void* stream);
  // From now on enqueue() and run() replay a graph of the call, on whatever the inputs hold then.
  void capture();
  void release_graph();  // back to direct calls

  const std::shared_ptr<Context>& context() const { return context_; }
  void set_context(std::shared_ptr<Context> context);  // later calls use it; a captured graph keeps its own

  TensorBytes inputs() const;
  TensorBytes outputs() const;
  Question question() const;  // views of the inputs in host memory, alive as long as this

  std::vector<GuardedTensor>& input_tensors() { return inputs_; }
  std::vector<GuardedTensor>& output_tensors() { return outputs_; }
  const Case& which() const { return case_; }
  const Op& op() const { return *op_; }
  const Path& path() const { return *path_; }
  Device& device() const { return *device_; }

 private:
  std::vector<GuardedTensor> make_inputs() const;
  void upload_input(size_t number);  // with the version of its contents

  const Op* op_;
  const Path* path_;
  Case case_;
  Device* device_;
  std::shared_ptr<Context> context_;
  std::vector<GuardedTensor> inputs_;
  std::vector<GuardedTensor> other_inputs_;  // empty until they are needed
  std::vector<uint64_t>
      versions_;  // of the inputs; empty in every fourth case, which paths have to serve as well
  std::map<std::pair<size_t, uint64_t>, uint64_t> known_versions_;  // by input and hash of its contents
  std::vector<GuardedTensor> outputs_;
  std::shared_ptr<Context> context_of_graph_;
  std::function<void()> replay_;
};

}  // namespace assay
