// SPDX-License-Identifier: Apache-2.0
// Echo adds nothing to the generic checks.
#include "kernels/echo/echo.h"

#include "properties/core/specimen.h"

namespace assay::echo {

std::vector<Specimen> specimens() {
  return {};
}

std::vector<Law> laws() {
  return {};
}

}  // namespace assay::echo
