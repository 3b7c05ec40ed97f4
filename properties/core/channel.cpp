// SPDX-License-Identifier: Apache-2.0
#include "properties/core/channel.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <thread>

namespace assay {
namespace {

constexpr int kPollMilliseconds = 50;
constexpr std::chrono::microseconds kAwake{300};     // for which waiting for a request takes a CPU
constexpr size_t kLongestMessage = size_t{1} << 20;  // [bytes] without tensors
constexpr int64_t kMostKept = int64_t{16} << 20;     // [bytes] of shared memory between messages

void write_all(int socket, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) throw Disconnected(std::strerror(errno));
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

// Returns when something can be read, or later. Who sleeps takes 25 us to wake up, and between the
// answer for a small case and the next request there are some 150 us. This process has no other
// work meanwhile. On a single CPU it would keep the other from its own.
void stay_awake_for_input(int socket) {
  static const bool others_can_run = std::thread::hardware_concurrency() > 1;
  const auto start = std::chrono::steady_clock::now();
  pollfd wait{.fd = socket, .events = POLLIN, .revents = 0};
  while (others_can_run && std::chrono::steady_clock::now() - start < kAwake && poll(&wait, 1, 0) == 0) {
  }
}

}  // namespace

Channel::Channel(int socket, int memory) : socket_(socket), memory_(memory) {
  reserve(kHeader);
}

Channel::~Channel() {
  munmap(map_, static_cast<size_t>(mapped_));
  close(socket_);
  close(memory_);
}

void Channel::reserve(int64_t bytes) {
  if (bytes <= mapped_) return;
  struct stat status {};
  if (fstat(memory_, &status) != 0) throw Disconnected(std::strerror(errno));
  // Not all that there is: a path may have made it larger than any memory.
  const auto length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(bytes)));
  const auto fail = [&] {
    // Else the descriptor is no longer that of the memory.
    if (errno != ENOMEM && errno != ENOSPC && errno != EFBIG) throw Disconnected(std::strerror(errno));
    throw device_error("{} bytes of shared memory: {}", length, std::strerror(errno));
  };
  if (status.st_size < length && ftruncate(memory_, length) != 0) fail();
  void* map = mmap(nullptr, static_cast<size_t>(length), PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  if (map == MAP_FAILED) fail();
  if (map_ != nullptr) munmap(map_, static_cast<size_t>(mapped_));
  map_ = static_cast<std::byte*>(map);
  mapped_ = length;
}

void Channel::send(const Message& message) {
  nlohmann::ordered_json fields = message.fields;
  int64_t at = kHeader;
  for (const auto& tensor : message.tensors) at += static_cast<int64_t>(tensor.size());
  reserve(at);
  at = kHeader;
  for (const auto& tensor : message.tensors) {
    std::ranges::copy(tensor, map_ + at);
    at += static_cast<int64_t>(tensor.size());
    fields["bytes"].push_back(tensor.size());
  }
  // A reason may quote bytes that are not UTF-8.
  const std::string text = fields.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string framed;
  for (int byte = 0; byte < 4; ++byte) framed += static_cast<char>(text.size() >> 8 * byte & 0xFF);
  framed += text;
  write_all(socket_, framed.data(), framed.size());
}

bool Channel::read(void* to, size_t bytes, const std::function<bool()>& gives_up) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
    const int ready = poll(&wait, 1, gives_up ? kPollMilliseconds : -1);
    if (ready < 0 && errno != EINTR) throw Disconnected(std::strerror(errno));
    if (ready <= 0) {
      if (gives_up && gives_up()) return false;
      continue;
    }
    const ssize_t got = recv(socket_, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Disconnected(got == 0 ? "the other end is closed" : std::strerror(errno));
    at += got;
    bytes -= static_cast<size_t>(got);
    if (bytes > 0 && gives_up && gives_up()) return false;  // the rest may come a byte at a time
  }
  return true;
}

std::optional<Message> Channel::receive(const std::function<bool()>& gives_up, int64_t most_bytes) {
  unsigned char length[4];
  if (!gives_up) stay_awake_for_input(socket_);
  if (!read(length, sizeof(length), gives_up)) return std::nullopt;
  size_t size = 0;
  for (int byte = 0; byte < 4; ++byte) size |= static_cast<size_t>(length[byte]) << 8 * byte;
  if (size > kLongestMessage) throw Nonsense(fmt::format("a message of {} bytes", size));
  std::string text(size, '\0');
  if (!read(text.data(), size, gives_up)) return std::nullopt;
  Message message{.fields = nlohmann::ordered_json::parse(text, nullptr, false), .tensors = {}};
  if (!message.fields.is_object()) throw Nonsense("a message that is no object of JSON");
  take_tensors(message, most_bytes);
  return message;
}

void Channel::take_tensors(Message& message, int64_t most_bytes) {
  if (!message.fields.contains("bytes")) return;
  struct stat status {};
  if (fstat(memory_, &status) != 0) throw Disconnected(std::strerror(errno));
  int64_t at = kHeader;
  for (const auto& bytes : message.fields["bytes"]) {
    const int64_t size = bytes.is_number_unsigned() ? bytes.get<int64_t>() : -1;
    if (size < 0 || size > status.st_size - at || size > most_bytes - (at - kHeader))
      throw Nonsense("a message whose tensors are not there, or too large");
    reserve(at + size);
    message.tensors.emplace_back(map_ + at, map_ + at + size);
    at += size;
  }
  if (at > kMostKept) madvise(map_ + kHeader, static_cast<size_t>(mapped_ - kHeader), MADV_REMOVE);
}

void Channel::set_step(std::string_view step) {
  const size_t length = std::min(step.size(), static_cast<size_t>(kHeader - 1));
  std::memcpy(map_, step.data(), length);
  map_[length] = std::byte{0};
}

std::string Channel::step() const {
  const auto* text = reinterpret_cast<const char*>(map_);
  return {text, strnlen(text, static_cast<size_t>(kHeader))};
}

}  // namespace assay
