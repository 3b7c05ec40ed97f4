// SPDX-License-Identifier: Apache-2.0
// One end of a connection between two processes: messages on a socket, their tensors in memory that
// both have mapped.
//
// A message is its length in four bytes, the lowest first, and then as much JSON. Its field "bytes"
// has the length of each of its tensors. They lie in the shared memory one after the other, behind
// kHeader bytes. There the process that runs a path writes what it does, so that whoever finds it
// dead knows. Only one message is under way at a time: a request or its answer.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "properties/core/problem.h"

namespace assay {

struct Message {
  nlohmann::ordered_json fields;
  TensorBytes tensors;
};

// The other process has closed its end.
class Disconnected : public Error {
 public:
  explicit Disconnected(std::string_view why) : Error("{}", why) {}
};

// The other process has sent what is no message.
class Nonsense : public Error {
 public:
  explicit Nonsense(std::string_view what) : Error("{}", what) {}
};

class Channel {
 public:
  static constexpr int64_t kHeader = 4096;  // [bytes]

  // Owns both descriptors. Throws Error (device) if the memory cannot be mapped.
  Channel(int socket, int memory);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  // Throws Disconnected, and Error (device) if there is no memory for the tensors: then nothing was
  // sent.
  void send(const Message& message);
  // Waits for a message, or until `gives_up` says so, which is asked 20 times a second. An empty
  // function never does. Its tensors have at most so many bytes. Throws Disconnected, Nonsense, and
  // Error (device) or std::bad_alloc if there is no memory for them.
  std::optional<Message> receive(const std::function<bool()>& gives_up = {},
                                 int64_t most_bytes = std::numeric_limits<int64_t>::max());

  void set_step(std::string_view step);
  std::string step() const;

 private:
  void reserve(int64_t bytes);  // maps at least that much
  bool read(void* to, size_t bytes, const std::function<bool()>& gives_up);
  void take_tensors(Message& message, int64_t most_bytes);

  int socket_;
  int memory_;
  std::byte* map_ = nullptr;
  int64_t mapped_ = 0;  // [bytes]
};

}  // namespace assay
