// SPDX-License-Identifier: Apache-2.0
// What an action says when it fails.
#pragma once

#include <string>

#include "kernels/core/error.h"

namespace assay {

// The message of the Error that the action throws, or "no error".
template <class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace assay
