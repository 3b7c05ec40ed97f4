// SPDX-License-Identifier: Apache-2.0
#include "reports/program/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "reports/render/text.h"

namespace assay {
namespace {

constexpr int kUsualWidth = 120;  // [columns]

std::atomic<bool> has_progress = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only use lock-free atomics");

// [columns] 0 if it is no terminal.
int width_of(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool can_take_back() {
  static const bool can = isatty(STDERR_FILENO) != 0 && variable("TERM") != "dumb";
  return can;
}

// "12 s", "3 min", "2 h"
std::string format_left(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", std::ceil(seconds));
  if (seconds < 100 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.0f} h", seconds / 3600);
}

}  // namespace

bool wants_colour() {
  return isatty(STDOUT_FILENO) != 0 && variable("NO_COLOR").empty();
}

int text_width() {
  int width = 0;
  const std::string_view columns = variable("COLUMNS");
  std::from_chars(columns.data(), columns.data() + columns.size(), width);
  if (width <= 0) width = width_of(STDOUT_FILENO);
  return width > 0 ? width : kUsualWidth;
}

bool show_progress(const std::string& line) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(100);
  static Clock::time_point last;
  if (!can_take_back()) return false;
  const Clock::time_point now = Clock::now();
  if (has_progress && now - last < kInterval) return true;
  last = now;
  clear_progress();
  // The end of a longer line would wrap, and stay.
  const int width = width_of(STDERR_FILENO);
  has_progress = true;
  fmt::print(stderr, "{}", clipped(line, static_cast<size_t>(width > 0 ? width : kUsualWidth) - 1));
  return true;
}

void clear_progress() {
  constexpr std::string_view kClearLine = "\r\x1b[2K";
  if (!has_progress.exchange(false)) return;
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, kClearLine.data(), kClearLine.size());
}

std::string describe(const Pace& pace) {
  std::string text = format_count(pace.done);
  text += pace.planned     ? fmt::format(" of {}", format_count(*pace.planned))
          : pace.done == 1 ? " case"
                           : " cases";
  constexpr double kLeast = 0.5;  // [s] before which a rate says nothing
  if (pace.timed > 0 && pace.spent >= kLeast) {
    const double rate = static_cast<double>(pace.timed) / pace.spent;
    text += rate >= 10 ? fmt::format(", {:.0f} a second", rate) : fmt::format(", {:.2g} a second", rate);
    if (pace.planned)
      text += fmt::format(
          ", {} left",
          format_left(static_cast<double>(std::max<int64_t>(*pace.planned - pace.done, 0)) / rate));
  }
  if (pace.budget) text += fmt::format(", {} left", format_left(std::max(*pace.budget - pace.spent, 0.0)));
  return text;
}

}  // namespace assay
