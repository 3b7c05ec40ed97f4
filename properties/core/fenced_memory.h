// SPDX-License-Identifier: Apache-2.0
// Memory of a device that has fences: addresses before, behind and between its parts that nothing
// can access. A vector that reads beyond a tensor for values that it does not use shows there, and
// nowhere else.
//
// On a GPU a touch of a fence is an illegal access, which ends the work of the process. On a CPU a
// handler of SIGSEGV notes it and makes the page accessible. So the path goes on, whoever called it
// learns what it touched, and a crash of another kind stays one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/core/device.h"

namespace assay {

class FencedMemory {
 public:
  struct Touch {
    int64_t position;  // [bytes] from the start of the memory
    bool is_write;
  };

  // Throws Error (device) if memory or addresses do not suffice.
  FencedMemory(Device& device, int64_t bytes, const Parts& parts);
  ~FencedMemory();
  FencedMemory(FencedMemory&& other) noexcept;
  FencedMemory& operator=(FencedMemory&& other) noexcept;

  std::byte* data() const;

  // From now on a write to the parts is a touch, too. It does nothing on a GPU.
  void protect();
  // Throws std::bad_alloc if the process may have no more memory that can be written.
  void allow_writes();

  // The first touch since the last one that was taken. The fences are whole again. None on a GPU.
  // Throws std::bad_alloc as allow_writes() does.
  std::optional<Touch> take_touch();

 private:
  struct Block;
  std::unique_ptr<Block> block_;
};

}  // namespace assay
