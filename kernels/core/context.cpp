// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/context.h"

#include <algorithm>
#include <atomic>

namespace assay {
namespace {

// Enough for the weights of a deep model in two dtypes; the least recently used go first.
constexpr size_t kMostDerived = 256;

}  // namespace

Workspace::Lease& Workspace::Lease::operator=(Lease&& other) noexcept {
  std::swap(owner_, other.owner_);
  std::swap(block_, other.block_);
  return *this;
}

Workspace::Lease::~Lease() {
  if (block_ == nullptr) return;
  const std::lock_guard lock(owner_->mutex_);
  block_->in_use = false;
}

void* Workspace::Lease::data() const {
  return block_ == nullptr ? nullptr : block_->buffer.data();
}

Workspace::Lease Workspace::lease(int64_t bytes, void* stream) {
  return lease_one(bytes, stream, [](const Block&) { return true; });
}

Workspace::Lease Workspace::lease_to_keep(int64_t bytes, void* stream) {
  return lease_one(bytes, stream, [&](const Block& block) {
    return block.buffer.bytes() <= bytes && !block.is_written_by_graph;
  });
}

Workspace::Lease Workspace::lease_one(int64_t bytes, void* stream,
                                      const std::function<bool(const Block&)>& is_allowed) {
  const uint64_t stream_id = device_->stream_id(stream);
  const bool is_capturing = device_->is_capturing(stream);
  const std::lock_guard lock(mutex_);
  Block* best = nullptr;
  for (Block& block : blocks_) {
    const int64_t held = block.buffer.bytes();
    if (block.in_use || block.stream != stream_id || held < bytes || !is_allowed(block)) continue;
    if (best == nullptr || held < best->buffer.bytes()) best = &block;
  }
  if (best == nullptr) {
    if (is_capturing) {
      throw usage_error(
          "{} bytes of working memory cannot be allocated while a graph is captured: make the same call "
          "once on this stream before capturing it",
          bytes);
    }
    best = &blocks_.emplace_back(DeviceBuffer(*device_, bytes), stream_id, false);
  }
  best->in_use = true;
  best->is_written_by_graph |= is_capturing;
  Lease lease;
  lease.owner_ = this;
  lease.block_ = best;
  return lease;
}

void Workspace::for_each(const std::function<void(void* data, int64_t bytes)>& visit) {
  const std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) {
    if (!block.in_use) visit(block.buffer.data(), block.buffer.bytes());
  }
}

void Workspace::release(uint64_t stream_id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(blocks_, [&](const Block& block) { return block.stream == stream_id && !block.in_use; });
}

DerivedTensors::Held DerivedTensors::get(const std::string& name, int64_t bytes,
                                         const std::vector<Source>& sources, void* stream,
                                         const std::function<void(void* data)>& make) {
  Held held;
  // It is leased even where it is not used: a later capture of this call needs it and cannot
  // allocate.
  held.lease_ = workspace_->lease(bytes, stream);
  const bool is_known = !sources.empty() && std::ranges::count(sources, uint64_t{0}, &Source::version) == 0;
  if (!is_known || device_->is_capturing(stream)) {
    make(held.lease_.data());
    return held;
  }
  const uint64_t stream_id = device_->stream_id(stream);
  const std::lock_guard lock(mutex_);
  const auto is_called = [&](const Entry& entry) { return entry.bytes == bytes && entry.name == name; };
  const auto has_versions = [&](const Entry& entry) {
    return std::ranges::equal(entry.sources, sources, {}, &Source::version, &Source::version);
  };
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.stream == stream_id && is_called(entry) && has_versions(entry);
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    found->sources = sources;  // they may have moved
  } else {
    // Evicted memory goes back to the workspace of its own stream. Later work on that stream runs
    // after its last use.
    std::erase_if(entries_, [&](const Entry& entry) {
      return is_called(entry) && !has_versions(entry) &&
             std::ranges::equal(entry.sources, sources, {}, &Source::data, &Source::data);
    });
    auto memory = std::make_shared<const Workspace::Lease>(workspace_->lease_to_keep(bytes, stream));
    make(memory->data());
    entries_.push_front({name, bytes, sources, stream_id, std::move(memory)});
    if (entries_.size() > kMostDerived) entries_.pop_back();
  }
  held.kept_ = entries_.front().memory;
  return held;
}

void DerivedTensors::release(uint64_t stream_id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(entries_, [&](const Entry& entry) { return entry.stream == stream_id; });
}

int64_t DerivedTensors::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(entries_.size());
}

void Context::release(void* stream) {
  const uint64_t stream_id = device_->stream_id(stream);
  derived_.release(stream_id);
  workspace_.release(stream_id);
  device_->forget_stream(stream);
}

Context& context_of(const Call& call) {
  if (call.context == nullptr) throw usage_error("the call has no context (kernels/core/context.h)");
  return *call.context;
}

uint64_t new_version() {
  static std::atomic<uint64_t> last = 0;
  return ++last;
}

}  // namespace assay
