// SPDX-License-Identifier: Apache-2.0
#include "properties/core/axes.h"

namespace assay {

std::vector<std::string_view> axes_of(const TensorInfo& tensor) {
  constexpr auto kNone = std::string_view::npos;
  std::vector<std::string_view> axes;
  for (size_t begin = tensor.shape.find_first_not_of(' '); begin != kNone;) {
    const size_t end = tensor.shape.find(' ', begin);
    axes.push_back(tensor.shape.substr(begin, end == kNone ? kNone : end - begin));
    begin = tensor.shape.find_first_not_of(' ', end);
  }
  return axes;
}

}  // namespace assay
