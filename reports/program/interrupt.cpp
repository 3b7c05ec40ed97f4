// SPDX-License-Identifier: Apache-2.0
#include "reports/program/interrupt.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <string_view>

#include "reports/program/program.h"
#include "reports/program/terminal.h"

namespace assay {
namespace {

// timeout signals a process and then its group, and make passes on what the terminal has sent.
constexpr int64_t kEcho = 50;  // [ms]

std::atomic<int64_t> interrupted_at = 0;  // [ms] on the steady clock; 0 if not yet
std::atomic<int> deadlines = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may only use lock-free atomics");

// A semaphore, because a signal handler may post to nothing else.
struct Arrival {
  Arrival() { sem_init(&semaphore, 0, 0); }
  sem_t semaphore;
};
Arrival arrival;

void on_signal(int) {
  if (deadlines > 0) {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    const int64_t now = int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000 + 1;
    int64_t first = 0;
    if (interrupted_at.compare_exchange_strong(first, now)) sem_post(&arrival.semaphore);
    if (now - (first == 0 ? now : first) < kEcho) return;
  }
  clear_progress();
  constexpr std::string_view kMessage = "assay: interrupted\n";
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kMessage.data(), kMessage.size());
  _exit(kExitInterrupted);
}

}  // namespace

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);  // nohup
  }
}

bool is_interrupted() {
  return interrupted_at != 0;
}

Deadline::Deadline(std::function<void()> overdue)
    : thread_([overdue = std::move(overdue)](const std::stop_token& stop) {
        while (!is_interrupted() && !stop.stop_requested()) sem_wait(&arrival.semaphore);
        std::mutex mutex;
        std::unique_lock lock(mutex);
        std::condition_variable_any never;
        never.wait_for(lock, stop, std::chrono::milliseconds(700), [] { return false; });
        if (!stop.stop_requested()) overdue();
      }) {
  ++deadlines;
}

Deadline::~Deadline() {
  --deadlines;
  thread_.request_stop();
  sem_post(&arrival.semaphore);
}

}  // namespace assay
