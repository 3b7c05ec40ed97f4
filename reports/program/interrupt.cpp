// SPDX-License-Identifier: Apache-2.0
#include "reports/program/interrupt.h"

#include <semaphore.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string_view>

#include "reports/program/program.h"
#include "reports/program/terminal.h"

namespace assay {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<int> deadlines = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may only use lock-free atomics");

// A semaphore, because a signal handler may post to nothing else.
struct Arrival {
  Arrival() { sem_init(&semaphore, 0, 0); }
  sem_t semaphore;
};
Arrival arrival;

void on_signal(int) {
  if (deadlines > 0 && !interrupted.exchange(true)) {
    sem_post(&arrival.semaphore);
    return;
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
  return interrupted;
}

Deadline::Deadline(std::function<void()> overdue)
    : thread_([overdue = std::move(overdue)](const std::stop_token& stop) {
        while (!interrupted && !stop.stop_requested()) sem_wait(&arrival.semaphore);
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
