// SPDX-License-Identifier: Apache-2.0
// A tensor between two fences, and with gaps between its rows. It ends or begins exactly at one of
// the fences. Between its other end and the other fence, and in its gaps, lies poison, which is
// checked after each run. A device without fences has bands of poison on both sides instead.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/core/device.h"
#include "properties/core/case.h"
#include "properties/core/fenced_memory.h"

namespace assay {

// A byte that fills memory which nobody should read or which nobody has written yet.
enum class Poison : unsigned char {
  kNan = 0xFF,     // a NaN in every dtype
  kFinite = 0x5A,  // an ordinary number in every dtype
};

// Which end of a tensor lies at a fence. Behind a dense tensor less than its alignment is left (64
// bytes, on a GPU 128), and behind a misaligned one an element if it must be, since each promises
// an alignment.
enum class Flush : uint8_t { kEnd, kStart };

// Of an inflated tensor: the axis with the large stride.
struct Inflation {
  int axis = 0;
  int64_t stride = int64_t{1} << 32;  // [elements] at least 2^31 bytes, and a power of two
};

// The axes of 2 to 64 indices (4 under ThreadSanitizer): a few strides show every wrapped offset,
// and more would take addresses only.
std::vector<int> inflatable_axes(const Extents& shape);

class GuardedTensor {
 public:
  static constexpr int64_t kGuardBytes = int64_t{64} << 10;  // the most poison on each side

  GuardedTensor(Device& device, const Extents& shape, DType dtype, Layout layout, bool is_input,
                Flush flush = Flush::kEnd, const Inflation& inflation = {});

  TensorView device_view() const;  // for the path
  TensorView host_view() const;    // the same in host memory, up to date after download()
  // From the first element to the last, for a dense tensor all of it, in the device's memory.
  MemorySpan device_span() const;
  int64_t elements() const { return elements_; }

  // Fills all host memory of the tensor, elements included.
  void poison(Poison poison);
  // From now until its contents are set again, a write to the tensor is a touch (find_touch), on a
  // CPU.
  void protect();
  // Copy host memory to device memory and back. They do nothing if both are the same memory.
  void upload();
  void download();

  // Sets every element from its row-major position. NaNs keep sign and payload. Elements that share
  // memory (broadcast) get the value of the first of them.
  void fill(const std::function<double(int64_t element)>& value);
  // The same with the values of elements from `first` on.
  void fill_ranges(const std::function<void(int64_t first, std::span<double> values)>& set_values);
  // The elements in row-major order, as raw bytes of the dtype.
  std::vector<std::byte> gather() const;
  // Those at these row-major positions.
  std::vector<std::byte> gather(std::span<const int64_t> elements) const;
  void scatter(std::span<const std::byte> dense);

  // Sets a dense tensor, in the device's memory alone, to as many elements of that device. They are
  // moved up by so many places, and those at the end come first.
  void set_rotated(const void* contents, int64_t by);
  // Sets so many elements of a dense tensor, in the device's memory alone, from number `first` on.
  void set_elements(int64_t first, const void* contents, int64_t count);

  // Moves the elements of a dense tensor in host memory up by so many places, in the same way.
  void rotate(int64_t by);

  // Exchanges the memory of two tensors of one device, contents included. Returns false, and does
  // nothing, if they lie in their memory in different ways.
  bool swap_memory(GuardedTensor& other);

  // A hash of all bytes: elements, gaps and guards.
  uint64_t hash() const;
  // Where the first byte outside the elements lies that is not `poison`, if there is one: "3 bytes
  // after the end". Overwrites the elements with the poison.
  std::optional<std::string> find_overwrite(Poison poison);
  // What the path did to a fence or to protected memory first since this was last asked: "read past
  // the end of x: 0 bytes after the end". It is known on a CPU only.
  std::optional<std::string> find_touch(std::string_view name);

 private:
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
  struct Place {
    int64_t data = 0;   // [bytes] from the start of the memory to element 0
    int64_t bytes = 0;  // of all the memory, fences included
    Parts parts{};      // that can be accessed
    Parts watched{};    // the elements and the poison around them

    bool operator==(const Place&) const = default;
  };
  Place place(Layout layout, Flush flush, int inflated_axis) const;

  Place place_;
  FencedMemory device_memory_;
  std::optional<FencedMemory> host_memory_;  // absent if the host can access device memory
};

// The name of the element at a row-major position: out[0, 3, 1].
std::string element_name(std::string_view tensor, int64_t element, const Extents& shape);
// The element at a row-major position of dense bytes.
double read_element(std::span<const std::byte> dense, DType dtype, int64_t element);

}  // namespace assay
