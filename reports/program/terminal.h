// SPDX-License-Identifier: Apache-2.0
// The terminal that the program writes to, if it does: its width, its colours, and a line of
// progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace assay {

// Whether standard output is a terminal on which NO_COLOR does not forbid colours.
bool wants_colour();

// [columns] That text on standard output may take: COLUMNS, or the width of the terminal, or 120 in
// a file.
int text_width();

// Shows a line of progress on stderr in place of the last one, ten times a second at most, if
// stderr is a terminal that can take it back. Returns whether it is.
bool show_progress(const std::string& line);
// Takes it back, before anything else is printed. Signal handlers may call it.
void clear_progress();

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// How far a number of cases is.
struct Pace {
  int64_t done = 0;                // those that a resumed run had judged included
  std::optional<int64_t> planned;  // none if time decides
  std::optional<double> budget;    // [s] in place of `planned`
  int64_t timed = 0;               // cases that took `spent`
  double spent = 0;                // [s]

  void add(double seconds) {
    ++done;
    ++timed;
    spent += seconds;
  }
};
// "812 of 1,414, 40 a second, 15 s left"; what is not known yet is left out.
std::string describe(const Pace& pace);

}  // namespace assay
