// SPDX-License-Identifier: Apache-2.0
// What paths keep between calls on one device: chosen configurations, working memory, tensors made from weights. All of
// it may make a call faster; none of it may change a result.
//
// Threads and streams may share a context. It must outlive every graph that was captured with it.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/device.h"
#include "kernels/core/tuner.h"

namespace assay {

// A piece of working memory.
struct Block {
  DeviceBuffer buffer;
  void* stream;  // that may use it
  bool in_use;   // by a lease
};

// Working memory. What is leased holds anything at all. It is kept for the next lease on the same stream, where it is
// used only after the work that was enqueued before; it is released with the context, so that a graph can be replayed.
class Workspace {
 public:
  explicit Workspace(Device& device) : device_(&device) {}

  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    void* data() const;
    template <class T>
    T* as() const {
      return static_cast<T*>(data());
    }

   private:
    friend class Workspace;
    Workspace* owner_ = nullptr;
    Block* block_ = nullptr;
  };

  // At least `bytes`, aligned to 256 bytes, for work on this stream only until the lease ends. Throws Error (usage)
  // while the stream is being captured and no block is free that is large enough: the same call has to run once before.
  Lease lease(int64_t bytes, void* stream);

  // All memory held, in use or not: for tests that spoil it.
  void for_each(const std::function<void(void* data, int64_t bytes)>& visit);

 private:
  friend class Lease;
  Device* device_;
  std::mutex mutex_;
  std::list<Block> blocks_;
};

// Tensors made from inputs that rarely change: weights in another dtype. Which values an input holds is told by its
// version (Call::versions): equal versions other than 0 promise equal values, wherever they lie. An address promises
// nothing. Without versions, and while a graph is captured (its replays must see new values), the tensor is made anew.
class DerivedTensors {
 public:
  DerivedTensors(Device& device, Workspace& workspace) : device_(&device), workspace_(&workspace) {}

  class Held {
   public:
    void* data() const { return kept_ ? kept_->data() : lease_.data(); }

   private:
    friend class DerivedTensors;
    std::shared_ptr<DeviceBuffer> kept_;
    Workspace::Lease lease_;
  };

  // The tensor called `name`, of this size. `make` enqueues work on `stream` that fills it; it is called if no tensor
  // of that name and size was made on that stream from inputs of these versions.
  Held get(const std::string& name, int64_t bytes, const std::vector<uint64_t>& versions, void* stream,
           const std::function<void(void* data)>& make);

 private:
  struct Entry {
    std::string name;
    int64_t bytes;
    std::vector<uint64_t> versions;
    void* stream;
    std::shared_ptr<DeviceBuffer> buffer;
  };

  Device* device_;
  Workspace* workspace_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the most recently used first
};

class Context {
 public:
  explicit Context(Device& device)
      : device_(&device), tuner_(device), workspace_(device), derived_(device, workspace_) {}

  Device& device() const { return *device_; }
  Tuner& tuner() { return tuner_; }
  Workspace& workspace() { return workspace_; }
  DerivedTensors& derived() { return derived_; }

 private:
  Device* device_;  // not owned
  Tuner tuner_;
  Workspace workspace_;
  DerivedTensors derived_;
};

// The context of a call. Throws Error (usage) if it has none.
Context& context_of(const Call& call);

// A number that no other call of this function has returned: for an input whose values have changed.
uint64_t new_version();

}  // namespace assay
