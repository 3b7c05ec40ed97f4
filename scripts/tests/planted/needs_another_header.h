// SPDX-License-Identifier: Apache-2.0
// Planted: compiles only after <vector>.
#pragma once

inline std::vector<int> numbers() {
  return {};
}
