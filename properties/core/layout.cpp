// SPDX-License-Identifier: Apache-2.0
#include "properties/core/layout.h"

#include <array>

#include "kernels/core/error.h"

namespace assay {
namespace {

using enum Layout;

constexpr std::array kLayouts{kDense, kStrided, kMisaligned, kTransposed, kBroadcast, kMixed, kInflated};

}  // namespace

std::span<const Layout> all_layouts() {
  return kLayouts;
}

std::string_view name_of(Layout layout) {
  switch (layout) {
    case kDense:
      return "dense";
    case kStrided:
      return "strided";
    case kMisaligned:
      return "misaligned";
    case kTransposed:
      return "transposed";
    case kBroadcast:
      return "broadcast";
    case kMixed:
      return "mixed";
    case kInflated:
      return "inflated";
  }
  throw Error("Layout({}) is not a layout", static_cast<int>(layout));
}

}  // namespace assay
