// SPDX-License-Identifier: Apache-2.0
// What paths keep between calls on one device: chosen configurations, working memory, tensors made from weights. All of
// it may make a call faster; none of it may change a result.
//
// Threads and streams may share a context. It must outlive every graph that was captured with it.
//
// Graphs. A call that is captured leases its working memory like any other and gives it back when it returns, so each
// replay of the graph writes to memory that later calls on that stream, and other graphs captured on it, use as well.
// Allowed: replays and direct calls in any order on the stream of the capture, or on several streams that events put
// into one order, as none of them then runs during another. A graph that is replayed at the same time as other work of
// its stream's calls needs a context of its own: make the call once with that context, capture it with that context,
// and use the context for nothing else.
//
// Streams. What is kept is kept for one stream, told by Device::stream_id(), so a new stream with the handle of a
// destroyed one gets memory of its own. What was kept for the old one stays until release() or the end of the context.
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
  uint64_t stream;                   // that may use it
  bool in_use;                       // by a lease
  bool is_written_by_graph = false;  // replays write to it whenever they like
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

  // The same for what later calls read: no larger block, and none that a graph was captured with. Not for captures.
  Lease lease_to_keep(int64_t bytes, void* stream);

  // All memory that is held and not leased: for tests that spoil it.
  void for_each(const std::function<void(void* data, int64_t bytes)>& visit);

  // Gives all memory of the stream that is not leased back to the device.
  void release(uint64_t stream_id);

 private:
  friend class Lease;
  // Of the free blocks of the stream that are allowed the smallest that is large enough, or a new one.
  Lease lease_one(int64_t bytes, void* stream, const std::function<bool(const Block&)>& is_allowed);

  Device* device_;
  std::mutex mutex_;
  std::list<Block> blocks_;
};

// Tensors made from inputs that rarely change: weights in another dtype. Which values an input holds is told by its
// version (Call::versions): equal versions other than 0 promise equal values, wherever they lie. An address promises
// nothing; it only tells what will not be asked for again: what was made from other versions at the same addresses.
// Without versions, and while a graph is captured (its replays must see new values), the tensor is made anew.
class DerivedTensors {
 public:
  // An input that a tensor is made from.
  struct Source {
    uint64_t version;  // 0: unknown
    const void* data;  // where the input lies
    bool operator==(const Source&) const = default;
  };

  DerivedTensors(Device& device, Workspace& workspace) : device_(&device), workspace_(&workspace) {}

  class Held {
   public:
    void* data() const { return kept_ ? kept_->data() : lease_.data(); }

   private:
    friend class DerivedTensors;
    std::shared_ptr<const Workspace::Lease> kept_;
    Workspace::Lease lease_;
  };

  // The tensor called `name`, of this size. `make` enqueues work on `stream` that fills it; it is called if no tensor
  // of that name and size was made on that stream from inputs of these versions. It must not ask for derived tensors.
  Held get(const std::string& name, int64_t bytes, const std::vector<Source>& sources, void* stream,
           const std::function<void(void* data)>& make);

  void release(uint64_t stream_id);  // all that was made on the stream
  int64_t count() const;             // of tensors that are kept

 private:
  struct Entry {
    std::string name;
    int64_t bytes;
    std::vector<Source> sources;
    uint64_t stream;
    std::shared_ptr<const Workspace::Lease> memory;
  };

  Device* device_;
  Workspace* workspace_;
  mutable std::mutex mutex_;
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

  // Gives back what is kept for a stream. For a program that makes streams again and again: to be called before it
  // destroys one, unless a graph that was captured on it lives on.
  void release(void* stream);

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
