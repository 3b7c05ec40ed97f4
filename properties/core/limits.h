// SPDX-License-Identifier: Apache-2.0
// The limits that the system sets to a worker.
#pragma once

#include <optional>

#include "kernels/core/device.h"
#include "properties/core/verdict.h"

namespace assay {

// What a worker does at first: files may be as large as its user may make them, which is also a
// limit on shared memory. What exceeds it fails from here on. Nothing leaves a core.
void set_limits();

// The verdict on a case for which a worker, this process, has no memory: skipped, for this reason;
// crashed if the path has lowered the process's limits on memory or files.
Verdict no_memory(std::string_view reason);

// Who is to blame if memory is lacking after a path was called. Before the call this process looks
// whether it may have four times the memory of the case's largest tensors, and some more. It looks
// again once its tensors and the path's scratch memory are released: a path after which there is
// less has taken it. It asks for addresses and limits, which nobody else uses up.
class FoundMemory {
 public:
  // [bytes] `own` of the case's tensors, `largest` of those of its state's steps where they are
  // larger. Throws OutOfMemory if that is not there on the host.
  FoundMemory(DeviceKind kind, int64_t own, int64_t largest);
  // After a case was skipped for want of memory: crashed if the path took it, else as it was.
  Verdict blame(Verdict skipped, Device& device) const;

 private:
  bool may_have(int64_t bytes) const;

  int64_t own_, largest_;
  std::optional<double> limit_;  // [bytes] of private memory, that of a CPU path when it was found
};

// While it lives, this process gets no more private memory than was left on the machine, a few
// times what it has mapped already, and some GiB: tensors with large strides, and the stacks of
// threads, map more than they use. So a path that asks for more is told so. Otherwise, and for
// shared memory, the system has to choose a process that ends: workers come first.
class MemoryLimit {
 public:
  MemoryLimit();
  ~MemoryLimit();
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;
};

// One for what a path of such a device does. That of a GPU has memory of its own.
inline std::optional<MemoryLimit> limit_on(DeviceKind device) {
  return device == DeviceKind::kCpu ? std::optional<MemoryLimit>(std::in_place) : std::nullopt;
}

}  // namespace assay
