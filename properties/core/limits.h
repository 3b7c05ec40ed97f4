// SPDX-License-Identifier: Apache-2.0
// The limits that the system sets to a worker.
#pragma once

#include <optional>

#include "kernels/core/device.h"
#include "properties/core/case.h"
#include "properties/core/registry.h"
#include "properties/core/verdict.h"

namespace assay {

// What a worker does at first: files may be as large as its user may make them, which is also a
// limit on shared memory. What exceeds it fails from here on. Nothing leaves a core.
void set_limits();

// The verdict on a case for which a worker, this process, has no memory: skipped, for this reason;
// crashed if the path has lowered the process's limits on memory or files.
Verdict no_memory(std::string_view reason);

// Who is to blame if memory is lacking after a path was called. Before the call this process looks
// whether it may have four times the memory of the case's tensors, or of those of its steps if they
// are larger, and some more. It looks again once all tensors and working memory are released: a
// path after which there is less has taken it. It asks for addresses and limits, which nobody else
// uses up.
class FoundMemory {
 public:
  // Throws OutOfMemory if that is not there on the host.
  FoundMemory(const Subject& subject, const Case& which);
  // Once all is released after a case that was skipped for want of memory: crashed if the path took
  // it, else as it was. `gpu`: a device that has held the case's tensors, has memory of its own and
  // has to be able to hold them again; else null.
  Verdict blame(Verdict skipped, Device* gpu) const;

 private:
  bool may_have(int64_t bytes) const;

  int64_t own_, largest_;        // [bytes] of tensors: the case's, and the largest of all
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
