// SPDX-License-Identifier: Apache-2.0
// What SIGINT, SIGTERM and SIGHUP do.
#pragma once

#include <functional>
#include <stop_token>
#include <thread>

namespace assay {

// From now on each of the three ends the process with exit code 130, unless a Deadline lives. Then
// the first sets is_interrupted(), and another one ends the process. Within 50 ms of the first it
// is an echo, and does nothing.
void install_interrupt_handler();
bool is_interrupted();

// A run has 0.7 s from the first signal to its end. The reports follow within the second.
class Deadline {
 public:
  // Calls `overdue` on a thread of its own, unless the deadline is gone by then.
  explicit Deadline(std::function<void()> overdue);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace assay
