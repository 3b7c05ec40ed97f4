// SPDX-License-Identifier: Apache-2.0
#include "properties/core/fenced_memory.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <new>

namespace assay {
namespace {

const auto kPage = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

// What the handler needs to know of one block.
struct Range {
  std::atomic<uintptr_t> begin, end;
  std::atomic<uintptr_t> touched;  // the first address that was touched; 0 if none
  std::atomic<bool> is_write;
  std::atomic<int> pages;  // made accessible by touches
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free, "a signal handler needs atomics without locks");

// Blocks beyond these have fences that end the process.
std::array<Range, 1024> ranges;
struct sigaction previous_action;

bool is_write(const void* context) {
  constexpr greg_t kWrite = 2;  // of the page fault's error code
  return (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
}

// Notes a touch and makes its page accessible. A path that runs away from its tensors is let go for
// so many pages.
bool note_touch(uintptr_t address, bool writes) {
  constexpr int kMostPages = 1 << 15;
  for (Range& range : ranges) {
    if (address < range.begin || address >= range.end) continue;
    if (++range.pages > kMostPages) return false;
    auto* page = reinterpret_cast<void*>(address / kPage * kPage);
    if (mprotect(page, kPage, PROT_READ | PROT_WRITE) != 0) return false;
    uintptr_t none = 0;
    if (range.touched.compare_exchange_strong(none, address)) range.is_write = writes;
    return true;
  }
  return false;
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;  // else somebody sent the signal
  if (is_fault && note_touch(reinterpret_cast<uintptr_t>(info->si_addr), is_write(context))) {
    errno = error;
    return;
  }
  sigaction(signal, &previous_action, nullptr);
  if (!is_fault) raise(signal);  // a fault comes again by itself
}

void handle_faults() {
  static const bool handles = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGSEGV, &action, &previous_action) == 0;
  }();
  static_cast<void>(handles);
}

Range* register_range(const std::byte* data, int64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  for (Range& range : ranges) {
    uintptr_t none = 0;
    if (!range.end.compare_exchange_strong(none, begin)) continue;
    range.begin = begin;
    range.end = begin + static_cast<uintptr_t>(bytes);
    return &range;
  }
  return nullptr;
}

}  // namespace

struct FencedMemory::Block {
  Block(Device& on, int64_t size, const Parts& accessible)
      : device(on),
        bytes(size),
        parts(accessible),
        data(static_cast<std::byte*>(on.reserve(size, accessible))) {
    if (!device.host_can_access() || device.page_bytes() == 0) return;
    handle_faults();
    range = register_range(data, bytes);
  }
  ~Block() {
    bool is_as_before = true;
    try {
      allow_writes();
      close_fences();
    } catch (const std::bad_alloc&) {
      is_as_before = false;  // whoever got this memory next could not write
    }
    if (range != nullptr) range->begin = range->end = 0;
    if (is_as_before) {
      device.unreserve(data, bytes, parts);
    } else {
      device.release(data, bytes);
    }
  }

  // Memory that can be written counts towards a process's limit, so there may be none left for it.
  void set(int protection) const {
    for (const Part& part : parts) {
      if (mprotect(data + part.begin, static_cast<size_t>(part.length), protection) != 0)
        throw std::bad_alloc();
    }
  }
  void protect() {
    if (range == nullptr || is_protected) return;
    is_protected = true;  // also in part
    set(PROT_READ);
  }
  void allow_writes() {
    if (!is_protected) return;
    set(PROT_READ | PROT_WRITE);
    is_protected = false;
  }

  // As they were before any touch.
  void close_fences() {
    if (range == nullptr || range->pages == 0) return;
    range->touched = 0;
    if (mprotect(data, static_cast<size_t>(bytes), PROT_NONE) != 0) throw std::bad_alloc();
    set(is_protected ? PROT_READ : PROT_READ | PROT_WRITE);
    range->pages = 0;
  }

  Device& device;
  int64_t bytes;
  Parts parts;
  std::byte* data;
  Range* range = nullptr;  // none where nobody handles touches
  bool is_protected = false;
};

FencedMemory::FencedMemory(Device& device, int64_t bytes, const Parts& parts)
    : block_(std::make_unique<Block>(device, bytes, parts)) {}
FencedMemory::~FencedMemory() = default;
FencedMemory::FencedMemory(FencedMemory&&) noexcept = default;
FencedMemory& FencedMemory::operator=(FencedMemory&&) noexcept = default;

std::byte* FencedMemory::data() const {
  return block_->data;
}
void FencedMemory::protect() {
  block_->protect();
}
void FencedMemory::allow_writes() {
  block_->allow_writes();
}

std::optional<FencedMemory::Touch> FencedMemory::take_touch() {
  const Range* range = block_->range;
  if (range == nullptr || range->touched == 0) return std::nullopt;
  const Touch touch{.position = static_cast<int64_t>(range->touched - range->begin),
                    .is_write = range->is_write};
  block_->close_fences();
  return touch;
}

}  // namespace assay
