// SPDX-License-Identifier: Apache-2.0
// Planted: a message that asks for two values and gets one. It must not compile.
#include "kernels/core/error.h"

int main() {
  throw assay::Error("expected {}, got {}", 1);
}
