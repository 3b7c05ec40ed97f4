// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/parallel.h"

#include <tbb/parallel_for.h>

#include <algorithm>

// ThreadSanitizer does not see the synchronisation inside libtbb, which is built without it. These two calls
// tell it what parallel_for guarantees: what was written before it is seen by the bodies, and what they write
// after it.
#if defined(__SANITIZE_THREAD__)
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#else
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
#endif

namespace assay {

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  if (count <= grain) return body(0, count);
  char start = 0;
  char finish = 0;
  __tsan_release(&start);
  tbb::parallel_for(int64_t{0}, (count + grain - 1) / grain, [&](int64_t chunk) {
    __tsan_acquire(&start);
    body(chunk * grain, std::min(count, (chunk + 1) * grain));
    __tsan_release(&finish);
  });
  __tsan_acquire(&finish);
}

}  // namespace assay
