// SPDX-License-Identifier: Apache-2.0
// What this build contains. ASSAY_HAS_CUDA is set by the build for every target.
#pragma once

namespace assay {

inline constexpr bool kHasCuda = ASSAY_HAS_CUDA != 0;

}  // namespace assay
