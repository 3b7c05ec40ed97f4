// SPDX-License-Identifier: Apache-2.0
#include "properties/core/float_environment.h"

#include <xmmintrin.h>

namespace assay {
namespace {

constexpr uint32_t kDefaultMxcsr = 0x1F80;
constexpr uint16_t kDefaultX87 = 0x037F;

// Bits of MXCSR.
constexpr uint32_t kDenormalsAreZero = 0x0040, kTraps = 0x1F80, kRounding = 0x6000, kFlushToZero = 0x8000;
// Bits of the x87 control word.
constexpr uint32_t kX87Traps = 0x003F, kX87Precision = 0x0300, kX87Rounding = 0x0C00;

uint16_t x87_control() noexcept {
  uint16_t word = 0;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}

// Pending exceptions would trap as soon as their bits are unmasked.
void set(uint32_t mxcsr, uint16_t x87) noexcept {
  _mm_setcsr(mxcsr);
  if (x87_control() == x87) return;
  asm volatile("fnclex\n\tfldcw %0" : : "m"(x87));
}

}  // namespace

FloatEnvironment::FloatEnvironment() noexcept : mxcsr_(_mm_getcsr()), x87_(x87_control()) {
  set(kDefaultMxcsr, kDefaultX87);
}

FloatEnvironment::~FloatEnvironment() {
  set(mxcsr_, x87_);
}

std::optional<std::string_view> FloatEnvironment::change() const noexcept {
  const uint32_t sse = _mm_getcsr() ^ kDefaultMxcsr;
  const auto x87 = static_cast<uint32_t>(x87_control() ^ kDefaultX87);
  if ((sse & kRounding) != 0 || (x87 & kX87Rounding) != 0) return "the rounding mode";
  if ((sse & kFlushToZero) != 0) return "what becomes of subnormal results (FTZ)";
  if ((sse & kDenormalsAreZero) != 0) return "what becomes of subnormal inputs (DAZ)";
  if ((sse & kTraps) != 0 || (x87 & kX87Traps) != 0) return "which floating-point exceptions trap";
  if ((x87 & kX87Precision) != 0) return "the precision of the x87 unit";
  return std::nullopt;
}

}  // namespace assay
