// SPDX-License-Identifier: Apache-2.0
// What paths keep between calls on one device: chosen configurations, working memory, and tensors
// made from weights. It may make a call faster; it never changes a result.
//
// Threads and streams may share a context. It must outlive every graph that was captured with it.
//
// Graphs. A captured call leases its working memory like any other call and gives it back when it
// returns. Each replay of the graph then writes to that memory, which later calls on the stream use
// as well, and so do other graphs captured on it. That is safe as long as no two of them run at the
// same time: replays and direct calls may come in any order on the stream of the capture, or on
// several streams that events put into one order. A graph that is replayed at the same time as
// other work of the stream needs a context of its own: make the call once with that context,
// capture it with that context, and use the context for nothing else.
//
// Streams. Everything is kept for one stream, identified by Device::stream_id(). A new stream may
// get the handle of a destroyed one; it still gets memory of its own. The memory of the old stream
// stays until release() or until the context ends.
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
  uint64_t stream;                   // the only one that may use it
  bool in_use;                       // by a lease
  bool is_written_by_graph = false;  // replays write to it at any time
};

// Working memory. A leased block holds arbitrary bytes. After the lease the block is kept for the
// next lease on the same stream, whose work runs after the work enqueued before. Only release() or
// the end of the context frees a block, so a captured graph can be replayed until then.
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

  // A block of at least `bytes`, aligned to 256 bytes, for work on this stream only, until the
  // lease ends. Throws Error (usage) if the stream is being captured and no free block is large
  // enough: make the same call once before capturing it.
  Lease lease(int64_t bytes, void* stream);

  // The same for memory that later calls read. It never takes a larger block, nor one that a graph
  // was captured with. The stream must not be capturing.
  Lease lease_to_keep(int64_t bytes, void* stream);

  // Visits all memory that is held and not leased. Tests spoil it.
  void for_each(const std::function<void(void* data, int64_t bytes)>& visit);

  // Gives the stream's memory back to the device, except what is leased.
  void release(uint64_t stream_id);

 private:
  friend class Lease;
  // The smallest free block of the stream that is allowed and large enough, or a new block.
  Lease lease_one(int64_t bytes, void* stream, const std::function<bool(const Block&)>& is_allowed);

  Device* device_;
  std::mutex mutex_;
  std::list<Block> blocks_;
};

// Tensors made from inputs that rarely change, such as weights in another dtype. The version of an
// input (Call::versions) tells which values it holds: equal versions other than 0 promise equal
// values, at any address. An address promises nothing. It only tells which tensors will not be
// asked for again: those made from other versions at the same addresses. The tensor is made anew in
// every call without versions, and in a call that is captured, since replays of the graph must see
// new values.
//
// It also keeps memory that a kernel leaves as its next launch needs to find it: `sources` is then
// one constant version, and `make` sets the memory up for the first launch.
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

  // The tensor called `name`, of this size. `make` enqueues work on `stream` that fills it. It is
  // called unless a tensor of that name and size was made on that stream from inputs of these
  // versions. `make` must not ask for derived tensors.
  Held get(const std::string& name, int64_t bytes, const std::vector<Source>& sources, void* stream,
           const std::function<void(void* data)>& make);

  void release(uint64_t stream_id);  // drops all tensors made on the stream
  int64_t count() const;             // tensors that are kept

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

  // Gives back what is kept for a stream. A program that makes streams again and again calls it
  // before it destroys one, unless a graph captured on that stream lives on.
  void release(void* stream);

 private:
  Device* device_;  // not owned
  Tuner tuner_;
  Workspace workspace_;
  DerivedTensors derived_;
};

// The context of a call. Throws Error (usage) if it has none.
Context& context_of(const Call& call);

// A new version for an input whose values have changed: no other call of this function has returned
// it.
uint64_t new_version();

}  // namespace assay
