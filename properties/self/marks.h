// SPDX-License-Identifier: Apache-2.0
// What a test says of its own cost. The first lines of a file say, for ThreadSanitizer's build,
// that its tests run something on several threads: `// Marks: threads`. No other file is built
// there.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

namespace assay::test {

// Sanitizers slow the tests down by up to ten times. What they look for shows in fewer cases than a
// wrong number does.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHasThreadSanitizer = true;
#else
inline constexpr bool kHasThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = kHasThreadSanitizer;
#endif

}  // namespace assay::test

// At the beginning of a test: it takes long, and tests that always run see the same faults.
// scripts/test --nightly runs it.
#define NIGHTLY(why) \
  if (std::getenv("ASSAY_NIGHTLY") == nullptr) GTEST_SKIP() << "nightly: " << (why)

// At the beginning of a test: sanitizers have seen its code in another test. They look at code; the
// optimised build looks at the numbers.
#define NOT_SANITIZED(why) \
  if (assay::test::kIsSanitized) GTEST_SKIP() << "not under sanitizers: " << (why)
#define NOT_UNDER_THREAD_SANITIZER(why) \
  if (assay::test::kHasThreadSanitizer) GTEST_SKIP() << "not under ThreadSanitizer: " << (why)
