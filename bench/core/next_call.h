// SPDX-License-Identifier: Apache-2.0
// What another call says of one whose bits are not those that they should be.
#pragma once

#include <string>

#include "properties/core/problem.h"

namespace assay {

// The outputs of a problem are those of a call, with one bit of each byte flipped (Device::flip()).
// Calls again on the same inputs and says how the outputs of both calls differ, to be appended to a
// message: "; against the call after that, 64 of 4096 elements of out differ, first out[0, 3]: 1.5,
// then 1.25". Afterwards they are those of the call after it, flipped. If that call throws, the
// result says what. If it ends the process or does not return, that is the verdict.
std::string against_next_call(Problem& problem);

}  // namespace assay
