// SPDX-License-Identifier: Apache-2.0
// A device that paths run on, as the harness sees it: memory, streams, a clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/op.h"

namespace assay {

struct DeviceInfo {
  DeviceKind kind;
  int index;               // k of "cuda:k"; 0 for the CPU
  std::string model;       // "NVIDIA H200"
  std::string driver;      // empty for the CPU
  int64_t memory_bytes;    // [bytes] in all
  int64_t cache_bytes;     // [bytes] of the last-level cache
  int64_t units;           // hardware threads, or multiprocessors
  int compute_capability;  // 90 for sm_90; 0 for the CPU

  std::string name() const;  // "cpu", "cuda:0"
};

// A part of some memory that can be accessed.
struct Part {
  int64_t begin;   // [bytes] from the start of the memory
  int64_t length;  // [bytes]

  auto operator<=>(const Part&) const = default;
};
using Parts = std::vector<Part>;

// Some memory of a device.
struct MemorySpan {
  void* data;
  int64_t bytes;
};

// A hash of bytes in host memory.
uint64_t hash_of(MemorySpan memory);

// What a call did while it was watched.
struct Watched {
  bool escaped = false;  // the memory changed at a time when it should not
  double blocked = 0;    // [s] how long the call waited for its own stream before it returned
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // CPU: zero-filled pages that take no physical memory until they are touched, 2 MiB-aligned.
  // CUDA: undefined contents, all memory taken at once, 256-byte aligned.
  // Throws OutOfMemory if there is not enough.
  virtual void* allocate(int64_t bytes) = 0;
  virtual void release(void* memory, int64_t bytes) noexcept = 0;
  // A range of addresses with some accessible parts. Parts begin and end at multiples of
  // page_bytes(). A touch of the rest is a fault. The contents are undefined. A device without
  // fences has pages of 0 bytes, and everything between the parts can be accessed, too. Throws as
  // allocate() does.
  virtual int64_t page_bytes() const { return 0; }
  virtual void* reserve(int64_t bytes, const Parts&) { return allocate(bytes); }
  virtual void unreserve(void* memory, int64_t bytes, const Parts&) noexcept { release(memory, bytes); }
  virtual bool host_can_access() const = 0;  // whether allocations are ordinary host memory
  virtual void copy_to_device(void* device, const void* host, int64_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, int64_t bytes) = 0;

  virtual void* stream() const = 0;  // for Call::stream
  virtual void* other_stream() = 0;  // a second stream; the same one if the device has only one
  // Waits for all work, and replaces both streams, with whatever was set for them. Nobody may use
  // the handles of before, nor a graph or a context that has seen them.
  virtual void renew_streams() {}
  // The number of the stream that a handle stands for. No other stream of this process has it or
  // ever had it. A handle may stand for another stream in another thread (cudaStreamPerThread), and
  // again after its stream has been destroyed. While a stream is being captured, its handle gets
  // the number that it had last. So call forget_stream() for a handle whose stream is destroyed.
  virtual uint64_t stream_id(void* stream) const { return reinterpret_cast<uintptr_t>(stream); }
  virtual void forget_stream(void*) {}
  // Wait for the work on a stream. Both throw Error (device) if a kernel failed.
  virtual void synchronize(void* stream) = 0;
  void synchronize() { synchronize(stream()); }

  // Enqueue a copy within the device, or a fill with one byte.
  virtual void copy(void* to, const void* from, int64_t bytes, void* stream) = 0;
  virtual void fill(void* memory, unsigned char byte, int64_t bytes, void* stream) = 0;

  // [s] The time from an idle stream until the `work` enqueued on it is complete.
  virtual double time(const std::function<void()>& work, void* stream) = 0;
  double time(const std::function<void()>& work) { return time(work, stream()); }
  // [s] Waits for all streams. How long that took.
  virtual double wait_until_idle() { return 0; }

  // A hash of the bytes that the memory holds after the work enqueued on stream() so far. This one
  // and the next three suit a device whose memory the host can access.
  virtual uint64_t hash(MemorySpan memory) { return hash_of(memory); }
  // Enqueues on stream(): flips the lowest bit of each byte. Done twice it changes nothing.
  virtual void flip(MemorySpan memory);
  // Both: the hash is that from before.
  virtual uint64_t hash_and_flip(MemorySpan memory);
  // Calls `work`, which enqueues on stream(), and sees whether it changes the memory when it should
  // not. CPU: within 20 ms after its return. CUDA: while stream() is held up, so that nothing that
  // was enqueued there can have begun. Afterwards the work is complete.
  virtual Watched watch(const std::function<void()>& work, std::span<const MemorySpan> memory);

  // Records what `work` enqueues on stream() without running it. The returned function enqueues it
  // on stream() each time it is called. Returns an empty function if the device has no graphs.
  virtual std::function<void()> capture(const std::function<void()>& work) = 0;
  virtual bool is_capturing(void* stream) const = 0;

  // Calls `work`, which enqueues on stream() and on other_stream(), and waits for both. All of it
  // runs on another schedule than usual, drawn from the seed. CPU: in an OtherSchedule
  // (parallel.h). CUDA: both streams begin together, when all is enqueued, beside a kernel that
  // keeps memory busy and takes shared memory of some multiprocessors, or of all.
  virtual void run_on_other_schedule(const std::function<void()>& work, uint64_t seed) = 0;

  // Fills the caches with data that nobody uses. On a GPU half of it is modified, as after a copy.
  // What others have set aside of the cache for themselves is taken back before.
  virtual void flush_cache() = 0;
  // [bytes] of a cache that is set aside for data which shall stay there.
  virtual int64_t cache_set_aside() { return 0; }
  // Enqueues on stream(): all shared memory holds this byte, until kernels write to it.
  virtual void fill_shared_memory(unsigned char) {}
};

// Memory of a device, released at the end of its life.
class DeviceBuffer {
 public:
  DeviceBuffer(Device& device, int64_t bytes)
      : device_(&device), bytes_(bytes), data_(device.allocate(bytes)) {}
  ~DeviceBuffer() {
    if (data_ != nullptr) device_->release(data_, bytes_);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : device_(other.device_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  friend void swap(DeviceBuffer& a, DeviceBuffer& b) noexcept {
    std::swap(a.device_, b.device_);
    std::swap(a.bytes_, b.bytes_);
    std::swap(a.data_, b.data_);
  }

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  Device* device_;  // not owned
  int64_t bytes_;   // [bytes]
  void* data_;
};

// The environment variable ASSAY_CACHE_BYTES is the size of its last-level cache, where a virtual
// machine tells that of a whole processor. Throws Error (usage) unless it is a number of bytes.
std::unique_ptr<Device> open_cpu();

}  // namespace assay
