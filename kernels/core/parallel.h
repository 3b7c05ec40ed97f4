// SPDX-License-Identifier: Apache-2.0
// The one way in which CPU code uses several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Calls body(begin, end) on all hardware threads and returns when all calls are done. The ranges
// are disjoint, cover [0, count) and have at most `grain` items. How long they are, in which order
// they come and which thread takes which is not fixed, so a body must not depend on it. The first
// exception of a body is rethrown.
//
// While it waits, the calling thread runs ranges of this call and of calls that their bodies make,
// but never ranges of an outer call. So a caller may hold a lock that bodies of the outer call wait
// for.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

// Calls `work` so that parallel_for() runs on the calling thread alone, and no other thread wakes.
void serially(const std::function<void()>& work);

// Starts the threads that parallel_for() uses, also in an OtherSchedule, unless it has. Otherwise
// the first calls start them. If they do not start it throws Error (device), or libtbb ends the
// process.
void start_threads();

// While it lives, parallel_for() of the whole process runs as the judge wants to see it: in ranges
// of one item, in an order that is drawn from the seed, on 1 to 8 threads, some of which wait at
// first until others have begun. One at a time.
class OtherSchedule {
 public:
  explicit OtherSchedule(uint64_t seed);
  ~OtherSchedule();
  OtherSchedule(const OtherSchedule&) = delete;
  OtherSchedule& operator=(const OtherSchedule&) = delete;
};

}  // namespace assay
