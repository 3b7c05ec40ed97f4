// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// "; did you mean WORD?" for the known word that is nearest to the typed one, or nothing if none is
// near: at most a third of the letters are other, missing, added or swapped with a neighbour.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known);
// The same, but if no known word is near, it lists them all: "; there are A, B" if `otherwise` is
// "there are".
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known,
                         std::string_view otherwise);

}  // namespace assay
