// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/parallel.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>

// libtbb is built without ThreadSanitizer, which therefore cannot see its synchronisation. This
// file holds all of TBB's templates and is not instrumented under ThreadSanitizer either. Two calls
// state what parallel_for guarantees instead: the bodies see what was written before it, and after
// it the caller sees what they wrote. The bodies are instrumented. What libtbb itself calls, memcmp
// or operator delete, is ThreadSanitizer's own code and would be taken for a race: it is left out.
#if ASSAY_TSAN
extern "C" {
void __tsan_acquire(void* address);
void __tsan_release(void* address);
const char* __tsan_default_suppressions() {
  return "called_from_lib:libtbb.so\n";
}
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
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(int64_t{0}, (count + grain - 1) / grain, [&](int64_t chunk) {
      __tsan_acquire(&start);
      body(chunk * grain, std::min(count, (chunk + 1) * grain));
      __tsan_release(&finish);
    });
  });
  __tsan_acquire(&finish);
}

}  // namespace assay
