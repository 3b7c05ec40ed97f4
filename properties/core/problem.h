// SPDX-License-Identifier: Apache-2.0
// The tensors of one case on one device, ready to run. The judge verifies a problem, and the timer
// times the same one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/device.h"
#include "kernels/core/threshold.h"
#include "oracles/core/oracle.h"
#include "properties/core/case.h"
#include "properties/core/guarded_tensor.h"
#include "properties/core/verdict.h"

namespace assay {

struct Law;

// An op, a path, an oracle and the op's laws: what to judge, and by what. They outlive every
// subject.
struct Subject {
  const Op* op;
  const Path* path;
  const Oracle* oracle;
  std::vector<const Law*> laws = {};
};

// Dense tensor contents in row-major order, one entry per tensor of the op's table.
using TensorBytes = std::vector<std::vector<std::byte>>;
uint64_t hash_of(TensorBytes& tensors);

// A call did what no path may: it returned with another floating-point environment than it was
// called with, or touched a fence or an input (GuardedTensor::find_touch).
class Trespass : public Error {
 public:
  explicit Trespass(std::string_view what) : Error("the path {}", what) {}
};

// A call threw, and did not refuse: the verdict on that.
class PathThrew : public Error {
 public:
  explicit PathThrew(Verdict verdict_) : Error("{}", verdict_.reason), verdict(std::move(verdict_)) {}
  Verdict verdict;
};

class Problem {
 public:
  // Makes the tensors, and a new context if none is given. Throws Error (usage) for dimensions
  // outside the op's ranges, and Error (device) if memory does not suffice.
  Problem(const Op& op, const Path& path, const Case& which, Device& device,
          std::shared_ptr<Context> context = nullptr);

  // No path will run on these tensors: their inputs need neither poison around them nor versions.
  void only_hold_inputs();

  // Set the values of inputs, and their versions with them. An input that gets earlier values again
  // gets their version again. Draws all inputs from number `first` on; the others stay.
  void draw_inputs(uint64_t seed, size_t first = 0);
  void draw_input(uint64_t seed, size_t number);
  void draw_input(uint64_t seed, size_t number, const Data& data);  // not those of the case
  void set_inputs(const TensorBytes& inputs);
  // Exchanges all inputs, or one, for a second set of tensors, which has no values at first. Throws
  // Error (device) if memory does not suffice.
  void swap_inputs(std::optional<size_t> number = std::nullopt);
  // GuardedTensor::set_rotated() on a dense input. The version is that of its contents, if this
  // input has versions.
  void rotate_input(size_t number, const void* contents, int64_t by, uint64_t version);
  // The same of GuardedTensor::set_elements().
  void set_elements(size_t number, int64_t first, const void* contents, int64_t count, uint64_t version);
  void poison_other_inputs();  // of the set that is not in use
  // Exchanges the memory of inputs after the first, in pairs of equal size. The inputs have to be
  // set anew.
  void swap_memory_of_inputs();
  void poison_outputs(Poison poison);
  Call call() const;  // on device memory
  // Calls the path in the default floating-point environment. Throws Error (unsupported) if it
  // refuses, PathThrew if it throws anything else, and Trespass if it changed the environment.
  void call_path(const Call& call) const;
  // Enqueues one call, or a replay of its graph, without waiting for it.
  void enqueue();
  // Runs one call to its end and downloads the outputs. Throws Trespass for whatever it did.
  void run();
  // The same for a direct call on this stream, even after capture().
  void run_directly(void* stream);
  // The same on another schedule, drawn from the seed. Meanwhile the device's other stream makes
  // the call of `beside`, if there is one.
  void run_on_other_schedule(uint64_t seed, const Problem* beside);
  // Waits for a call on this stream and throws Trespass if any call so far touched what it may not.
  void finish(void* stream);
  // From now on enqueue() and run() replay a graph of the call. It reads what the inputs hold then.
  void capture();
  void release_graph();  // back to direct calls
  // From now on, while this problem lives, all thresholds are low. Calls are direct, since a graph
  // holds a call with the thresholds of its capture.
  void lower_thresholds();

  // What happens from now on, for whoever has to say in what a process ended: "the first run".
  void begin(std::string_view step);
  const std::string& step() const { return step_; }
  void set_observer(std::function<void(std::string_view step)> observer) { observer_ = std::move(observer); }

  const std::shared_ptr<Context>& context() const { return context_; }
  // For later calls; a captured graph keeps its own.
  void set_context(std::shared_ptr<Context> context);

  TensorBytes inputs() const;
  TensorBytes outputs() const;
  // With views of the inputs in host memory, valid while the problem lives.
  Question question(Recipe recipe) const;
  Question question() const;  // under the recipe that the path says

  // A hash of the outputs that were judged; absent before, and unless the path gives the same
  // again.
  const std::optional<uint64_t>& judged() const { return judged_; }
  void set_judged(std::optional<uint64_t> hash) { judged_ = hash; }

  std::vector<GuardedTensor>& input_tensors() { return inputs_; }
  std::vector<GuardedTensor>& output_tensors() { return outputs_; }
  const Case& which() const { return case_; }
  const Op& op() const { return *op_; }
  const Path& path() const { return *path_; }
  Device& device() const { return *device_; }

 private:
  std::vector<GuardedTensor> make_inputs() const;
  void has_changed(size_t number, uint64_t version);
  void upload_input(size_t number);  // and sets the version of its contents

  const Op* op_;
  const Path* path_;
  Case case_;
  Device* device_;
  std::shared_ptr<Context> context_;
  std::vector<GuardedTensor> inputs_;
  std::vector<GuardedTensor> other_inputs_;  // empty until they are needed
  // Of the inputs. Empty in every fourth case, and in another fourth only some are known: paths
  // have to serve calls without versions, too.
  std::vector<uint64_t> versions_;
  std::vector<bool> has_version_;
  std::map<std::pair<size_t, uint64_t>, uint64_t> known_versions_;  // by input and hash of contents
  std::vector<GuardedTensor> outputs_;
  bool only_holds_inputs_ = false;
  std::shared_ptr<Context> context_of_graph_;
  std::function<void()> replay_;
  std::unique_ptr<LowThresholds> low_thresholds_;
  std::optional<uint64_t> judged_;
  std::string step_;
  std::function<void(std::string_view)> observer_;
};

}  // namespace assay
