// SPDX-License-Identifier: Apache-2.0
// Whether the tests run under a sanitizer.
#pragma once

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
