// SPDX-License-Identifier: Apache-2.0
// The one way in which CPU code uses several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace assay {

// Calls body(begin, end) on all hardware threads and returns when all calls are done. The ranges
// are disjoint and cover [0, count); each begins at a multiple of `grain` and has at most `grain`
// items. Which thread takes which range is not fixed, so a body must not depend on it. The first
// exception of a body is rethrown.
//
// While it waits, the calling thread runs ranges of this call and of calls that their bodies make,
// but never ranges of an outer call. So a caller may hold a lock that bodies of the outer call wait
// for.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace assay
