// SPDX-License-Identifier: Apache-2.0
// The one way in which CPU code uses several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Calls body(begin, end) for disjoint ranges that cover [0, count), each of at most `grain` items and
// beginning at a multiple of it, on all hardware threads; returns when all are done. Which thread takes which
// range is not fixed, so a body must not depend on it. The first exception of a body is rethrown.
//
// While it waits, the calling thread takes only ranges of this call and of calls from their bodies, none of an outer
// call: a caller may hold a lock for which the bodies of an outer call wait.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace assay
