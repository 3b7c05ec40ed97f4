// SPDX-License-Identifier: Apache-2.0
// A tensor in poisoned memory, with guard bands on both sides and gaps between its rows. Guards and
// gaps are checked after each run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "properties/core/case.h"

namespace assay {

// A byte that fills memory which nobody should read or which nobody has written yet.
enum class Poison : unsigned char {
  kNan = 0xFF,     // a NaN in every dtype
  kFinite = 0x5A,  // an ordinary number in every dtype
};

class GuardedTensor {
 public:
  static constexpr int64_t kGuardBytes = int64_t{64} << 10;  // on each side

  GuardedTensor(Device& device, const Extents& shape, DType dtype, Layout layout, bool is_input);

  TensorView device_view() const;  // for the path
  TensorView host_view() const;    // the same in host memory, up to date after download()
  int64_t elements() const { return elements_; }

  // Fills all host memory of the tensor, elements included.
  void poison(Poison poison);
  // Copy host memory to device memory and back. They do nothing if both are the same memory.
  void upload();
  void download();

  // Sets every element from its row-major position. NaNs keep sign and payload. Elements that share
  // memory (broadcast) get the value of the first of them.
  void fill(const std::function<double(int64_t element)>& value);
  // The elements in row-major order, as raw bytes of the dtype.
  std::vector<std::byte> gather() const;
  void scatter(std::span<const std::byte> dense);

  // Exchanges the memory of two tensors of one device, contents included. Returns false, and does
  // nothing, if their memory has different sizes.
  bool swap_memory(GuardedTensor& other);

  // A hash of all bytes: elements, gaps and guards.
  uint64_t hash() const;
  // Where the first byte outside the elements lies that is not `poison`, if there is one: "3 bytes
  // after the end". Overwrites the elements with the poison.
  std::optional<std::string> find_overwrite(Poison poison);

 private:
  struct Segment {
    int64_t begin;   // [bytes] from the start of the memory
    int64_t length;  // [bytes] guards included
  };

  std::byte* host() const;
  // Calls row(first_element, offset) for each innermost row, in parallel, so rows must not share
  // memory.
  void for_each_row(bool repeated,
                    const std::function<void(int64_t first_element, int64_t offset)>& row) const;

  Device* device_;
  Extents shape_;
  Extents strides_;  // [elements]
  DType dtype_;
  int64_t elements_;
  int64_t data_;                   // [bytes] from the start of the memory to element 0
  std::vector<Segment> segments_;  // the parts of the memory that are in use
  DeviceBuffer device_memory_;
  std::optional<DeviceBuffer> host_memory_;  // absent if the host can access device memory
};

// The name of the element at a row-major position: out[0, 3, 1].
std::string element_name(std::string_view tensor, int64_t element, const Extents& shape);
// The element at a row-major position of dense bytes.
double read_element(std::span<const std::byte> dense, DType dtype, int64_t element);

}  // namespace assay
