// SPDX-License-Identifier: Apache-2.0
// Every way in which a thread can change its floating-point environment.
#pragma once

#include <fenv.h>
#include <xmmintrin.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace assay::test {

struct EnvironmentChange {
  std::string_view name;  // as FloatEnvironment::change() says it
  void (*make)();
};

inline void set_x87(uint16_t word) {
  asm volatile("fldcw %0" : : "m"(word));
}

inline std::array<EnvironmentChange, 9> environment_changes() {
  return {{{"the rounding mode", [] { fesetround(FE_UPWARD); }},
           {"the rounding mode", [] { fesetround(FE_DOWNWARD); }},
           {"the rounding mode", [] { fesetround(FE_TOWARDZERO); }},
           {"the rounding mode", [] { set_x87(0x0B7F); }},
           {"what becomes of subnormal results (FTZ)", [] { _mm_setcsr(_mm_getcsr() | 0x8000); }},
           {"what becomes of subnormal inputs (DAZ)", [] { _mm_setcsr(_mm_getcsr() | 0x0040); }},
           {"which floating-point exceptions trap", [] { feenableexcept(FE_INVALID); }},
           {"which floating-point exceptions trap", [] { set_x87(0x037E); }},
           {"the precision of the x87 unit", [] { set_x87(0x027F); }}}};
}

}  // namespace assay::test
