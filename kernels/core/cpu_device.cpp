// SPDX-License-Identifier: Apache-2.0
// The CPU as a device. Memory is mapped anonymously, the steady clock tells the time, and writing
// more than the cache holds flushes it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "kernels/core/cpu_caches.h"
#include "kernels/core/device.h"
#include "kernels/core/kept_memory.h"
#include "kernels/core/parallel.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

// Huge pages need this alignment. It also keeps tensors off each other's cache lines.
constexpr int64_t kAlignment = int64_t{2} << 20;
const int64_t kPage = sysconf(_SC_PAGESIZE);

// [bytes] of a task. Of a copy as many as memcpy() writes past the caches.
constexpr int64_t kGrain = int64_t{1} << 20, kCopyGrain = int64_t{4} << 20;

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

// What the user says, else at least what most processors have: a virtual machine may hide its last
// level.
int64_t cache_bytes() {
  constexpr int64_t kLeast = int64_t{1} << 20;
  if (const char* const text = std::getenv("ASSAY_CACHE_BYTES")) {
    int64_t bytes = 0;
    const char* const end = text + std::strlen(text);
    const auto [rest, error] = std::from_chars(text, end, bytes);
    if (error != std::errc{} || rest != end || bytes < kLeast)
      throw usage_error("ASSAY_CACHE_BYTES is {}; expected bytes, {} or more", printable(text), kLeast);
    return bytes;
  }
  return std::max(last_level_cache_bytes("/sys/devices/system/cpu"), int64_t{32} << 20);
}

// A sum over pairs of words, each mixed with its position. So ranges may be added in any order.
// After a pair was read, visit(its address, its bytes) may change it.
template <class Visit>
uint64_t hash_and_visit(MemorySpan memory, const Visit& visit) {
  constexpr std::integral_constant<int64_t, 16> kPair;  // [bytes]
  auto* const bytes = static_cast<std::byte*>(memory.data);
  const auto mixed = [](uint64_t a, uint64_t b, int64_t i) {
    const uint64_t place = static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15u;
    const uint64_t x = a ^ place, y = b ^ (place + 0xD1342543DE82EF95u);
    __extension__ using Wide = unsigned __int128;
    const auto product = static_cast<Wide>(x) * y;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const auto hash_pair = [&](int64_t i, auto length) {  // it is a constant in the loop
    uint64_t pair[2] = {};
    std::memcpy(pair, bytes + kPair * i, static_cast<size_t>(length));
    visit(bytes + kPair * i, length);
    return mixed(pair[0], pair[1], i);
  };
  const int64_t pairs = memory.bytes / kPair, rest = memory.bytes % kPair;
  std::atomic<uint64_t> sum = 0;
  parallel_for(pairs, kGrain / kPair, [&](int64_t begin, int64_t end) {
    uint64_t part = 0;
    for (int64_t i = begin; i < end; ++i) part += hash_pair(i, kPair);
    sum += part;
  });
  return rest == 0 ? sum.load() : sum + hash_pair(pairs, rest);
}

inline void flip_bytes(std::byte* at, int64_t count) {
  constexpr uint64_t kOneBitOfEach = 0x0101010101010101u;
  uint64_t word = 0;
  for (; count >= 8; count -= 8, at += 8) {
    std::memcpy(&word, at, sizeof(word));
    word ^= kOneBitOfEach;
    std::memcpy(at, &word, sizeof(word));
  }
  for (; count > 0; --count, ++at) *at ^= std::byte{1};
}

class CpuDevice final : public Device {
 public:
  CpuDevice()
      : info_{.kind = DeviceKind::kCpu,
              .index = 0,
              .model = cpu_model(),
              .driver = "",
              .memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE),
              .cache_bytes = cache_bytes(),
              .units = std::max<int64_t>(1, std::thread::hardware_concurrency()),
              .compute_capability = 0} {}

  const DeviceInfo& info() const override { return info_; }

  void* allocate(int64_t bytes) override {
    void* memory = map(bytes, PROT_READ | PROT_WRITE);
    prefer_huge_pages(memory, bytes);
    return memory;
  }

  void release(void* memory, int64_t bytes) noexcept override { munmap(memory, mapped_length(bytes)); }

  int64_t page_bytes() const override { return kPage; }
  void* reserve(int64_t bytes, const Parts& parts) override {
    if (void* kept = kept_.take(bytes, parts)) return kept;
    auto* memory = static_cast<std::byte*>(map(bytes, PROT_NONE));
    for (const Part& part : parts) {
      if (mprotect(memory + part.begin, static_cast<size_t>(part.length), PROT_READ | PROT_WRITE) != 0) {
        const int error = errno;
        release(memory, bytes);
        throw OutOfMemory("cpu: cannot map {} bytes: {}", part.length, std::strerror(error));
      }
      prefer_huge_pages(memory + part.begin, part.length);
    }
    return memory;
  }
  void unreserve(void* memory, int64_t bytes, const Parts& parts) noexcept override {
    if (!kept_.keep(memory, bytes, parts)) release(memory, bytes);
  }

  bool host_can_access() const override { return true; }
  void copy_to_device(void* device, const void* host, int64_t bytes) override {
    std::memcpy(device, host, static_cast<size_t>(bytes));
  }
  void copy_to_host(void* host, const void* device, int64_t bytes) override {
    std::memcpy(host, device, static_cast<size_t>(bytes));
  }

  void* stream() const override { return nullptr; }
  void* other_stream() override { return nullptr; }
  void synchronize(void*) override {}

  void copy(void* to, const void* from, int64_t bytes, void*) override {
    parallel_for(bytes, kCopyGrain, [&](int64_t begin, int64_t end) {
      std::memcpy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
                  static_cast<size_t>(end - begin));
    });
  }
  void fill(void* memory, unsigned char byte, int64_t bytes, void*) override {
    std::memset(memory, byte, static_cast<size_t>(bytes));
  }

  double time(const std::function<void()>& work, void*) override {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  std::function<void()> capture(const std::function<void()>&) override { return {}; }
  bool is_capturing(void*) const override { return false; }

  uint64_t hash_and_flip(MemorySpan memory) override {
    return hash_and_visit(memory, [](std::byte* at, int64_t count) { flip_bytes(at, count); });
  }

  void run_on_other_schedule(const std::function<void()>& work, uint64_t seed) override {
    const OtherSchedule schedule(seed);
    work();
  }

  void flush_cache() override {
    if (!flush_) flush_ = std::make_unique<DeviceBuffer>(*this, 2 * info_.cache_bytes);
    std::memset(flush_->data(), ++flush_value_, static_cast<size_t>(flush_->bytes()));
  }

 private:
  // Addresses that are multiples of kAlignment.
  static void* map(int64_t bytes, int protection) {
    constexpr int64_t kMost = int64_t{1} << 46;  // [bytes] a quarter of all addresses
    if (bytes < 0 || bytes > kMost) throw Error("cpu: nothing has {} bytes", bytes);
    const size_t length = mapped_length(bytes);
    void* map =
        mmap(nullptr, length + kAlignment, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw OutOfMemory("cpu: cannot map {} bytes: {}", bytes, std::strerror(errno));
    auto* begin = static_cast<char*>(map);
    auto* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(map) + kAlignment - 1) / kAlignment *
                                            kAlignment);
    if (aligned > begin) munmap(begin, static_cast<size_t>(aligned - begin));
    char* end = begin + length + kAlignment;
    if (aligned + length < end) munmap(aligned + length, static_cast<size_t>(end - aligned) - length);
    return aligned;
  }

  // Sparse mappings keep small pages, since one touched element would take a whole huge page of
  // real memory. Small mappings keep them, too: clearing a huge page takes longer than all work on
  // them.
  void prefer_huge_pages(void* memory, int64_t bytes) const {
    if (bytes >= 2 * kAlignment && bytes <= info_.memory_bytes / 4)
      madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  }

  static size_t mapped_length(int64_t bytes) {
    return static_cast<size_t>((std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment);
  }

  DeviceInfo info_;
  KeptMemory kept_{[this](void* memory, int64_t bytes, const Parts&) { release(memory, bytes); },
                   int64_t{64} << 20};
  std::unique_ptr<DeviceBuffer> flush_;
  unsigned char flush_value_ = 0;
};

}  // namespace

uint64_t hash_of(MemorySpan memory) {
  return hash_and_visit(memory, [](std::byte*, int64_t) {});
}

uint64_t Device::hash_and_flip(MemorySpan memory) {
  const uint64_t before = hash(memory);
  flip(memory);
  return before;
}

void Device::flip(MemorySpan memory) {
  auto* const bytes = static_cast<std::byte*>(memory.data);
  parallel_for(memory.bytes, kGrain,
               [&](int64_t begin, int64_t end) { flip_bytes(bytes + begin, end - begin); });
}

Watched Device::watch(const std::function<void()>& work, std::span<const MemorySpan> memory) {
  const auto hashes = [&] {
    std::vector<uint64_t> all;
    for (const MemorySpan& span : memory) all.push_back(hash(span));
    return all;
  };
  work();
  const std::vector<uint64_t> at_return = hashes();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return {.escaped = hashes() != at_return};
}

std::string DeviceInfo::name() const {
  return kind == DeviceKind::kCpu ? "cpu" : fmt::format("{}:{}", name_of(kind), index);
}

std::unique_ptr<Device> open_cpu() {
  return std::make_unique<CpuDevice>();
}

}  // namespace assay
