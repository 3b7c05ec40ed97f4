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

// The same once the path has been called. It is crashed, too, if there was memory before the call.
Verdict no_memory_left(std::string_view reason);

// Before a path is called, this process looks whether it may have four times the memory of a case's
// largest tensors, and some more: all that the judge and the steps of a state need. Throws Error
// (device) if not. While it lives, the path is to blame for what is lacking. It asks for addresses
// and limits, which nobody else uses up; whether the machine has the memory shows later.
class FoundMemory {
 public:
  explicit FoundMemory(int64_t tensors);  // [bytes]
  ~FoundMemory();
  FoundMemory(const FoundMemory&) = delete;
  FoundMemory& operator=(const FoundMemory&) = delete;
  bool is_there() const;  // still

 private:
  size_t bytes_;
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
