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

// The verdict on a case for which a worker, this process, has no memory: skipped, for this reason,
// or crashed if the path has lowered the process's limits on memory or files, or if the process has
// more memory than the case can need: so a path keeps what it took.
Verdict no_memory(std::string_view reason);

// While it lives, this process gets no more private memory than was left on the machine, and a few
// times what it has mapped already: tensors with large strides map more than they use. So a path
// that asks for more is told so. Otherwise, and for shared memory, the system has to choose a
// process that ends: workers come first.
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
