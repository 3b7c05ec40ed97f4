// SPDX-License-Identifier: Apache-2.0
// The files templates/*.in, for fill(); defined by assay_embed().
#pragma once

#include <string_view>

namespace assay {

extern const std::string_view kBashTemplate, kZshTemplate, kFishTemplate, kManualTemplate;

}  // namespace assay
