// SPDX-License-Identifier: Apache-2.0
// Makes the compiler compute a value that nothing reads.
#pragma once

namespace assay {

template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

}  // namespace assay
