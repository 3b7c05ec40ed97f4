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
  const std::lock_guard lock(mutex_);
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (block.in_use || block.stream != stream || block.buffer.bytes() < bytes) continue;
    if (best == nullptr || block.buffer.bytes() < best->buffer.bytes()) best = &block;
  }
  if (best == nullptr) {
    if (device_->is_capturing(stream)) {
      throw usage_error(
          "{} bytes of working memory cannot be allocated while a graph is captured: make the same call "
          "once on this stream before capturing it",
          bytes);
    }
    best = &blocks_.emplace_back(DeviceBuffer(*device_, bytes), stream, false);
  }
  best->in_use = true;
  Lease lease;
  lease.owner_ = this;
  lease.block_ = best;
  return lease;
}

void Workspace::for_each(const std::function<void(void* data, int64_t bytes)>& visit) {
  const std::lock_guard lock(mutex_);
  for (const Block& block : blocks_) visit(block.buffer.data(), block.buffer.bytes());
}

DerivedTensors::Held DerivedTensors::get(const std::string& name, int64_t bytes,
                                         const std::vector<uint64_t>& versions, void* stream,
                                         const std::function<void(void* data)>& make) {
  Held held;
  // Also where it is not used: a later capture of this call needs it and cannot allocate.
  held.lease_ = workspace_->lease(bytes, stream);
  const bool is_known = !versions.empty() && std::ranges::count(versions, uint64_t{0}) == 0;
  if (!is_known || device_->is_capturing(stream)) {
    make(held.lease_.data());
    return held;
  }
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(entries_, [&](const Entry& entry) {
    return entry.stream == stream && entry.bytes == bytes && entry.name == name && entry.versions == versions;
  });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
  } else {
    auto buffer = std::make_shared<DeviceBuffer>(*device_, bytes);
    make(buffer->data());
    entries_.push_front({name, bytes, versions, stream, std::move(buffer)});
    if (entries_.size() > kMostDerived) entries_.pop_back();
  }
  held.kept_ = entries_.front().buffer;
  return held;
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
