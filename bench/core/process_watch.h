// SPDX-License-Identifier: Apache-2.0
// What a path on a CPU may do to the process that times it. It may set the clock that the timer
// reads, and its threads may work when the path is not called: rules 7 and 8 of timer.h.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace assay {

// How much slower a call has to be to count, and by how much at least [s]. Clocks and interrupts
// move less.
inline constexpr double kSlower = 1.25, kLeastSlower = 2e-6;

// Whether threads do not rest that have used so much processor time [s] while a call waited so long
// for them [s].
bool never_rest(double waited, double used);

class ProcessWatch {
 public:
  void clear();

  // Calls `prepare` for a call, on the calling thread alone, once other threads are idle. It has to
  // last long enough for a thread that sees the inputs change to work on them.
  void prepare(const std::function<void()>& prepare);
  // [s] The time of a call, as `time` says it.
  double call(const std::function<double()>& time);

  // What was seen since clear(), if anything was, beside a call of this time [s].
  std::string fault(double median) const;

 private:
  std::vector<double> ahead_;   // [s] processor time of other threads while a call was prepared
  std::vector<double> hidden_;  // [s] how much longer a call took by the kernel's clock
  bool is_quiet_ = true;
};

}  // namespace assay
