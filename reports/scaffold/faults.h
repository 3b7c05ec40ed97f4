// SPDX-License-Identifier: Apache-2.0
// The faults that are planted for a formula.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reports/scaffold/formula.h"

namespace assay {

struct PlantedFault {
  std::string name;      // "bias_dropped"
  std::string sentence;  // "bias is left out"

  std::string enumerator() const;  // "kBiasDropped"
};

struct Faults {
  std::vector<PlantedFault> dropped;        // one for each term, or none
  std::vector<bool> is_large;               // of each: has the term as many products as any?
  std::vector<PlantedFault> last_left_out;  // one for each index that is summed
  std::optional<PlantedFault> swapped;      // a tensor is read with its last two indices exchanged
  Tensor swapped_tensor;

  std::vector<PlantedFault> all() const;
  // Those that the comparison can reject in every case. Rounding in a long sum hides what is added
  // to it once.
  std::vector<PlantedFault> counterfeits() const;
};

Faults faults_of(const Formula& formula);

// Whether its values are those of an input, or their negatives.
bool is_copy(const Formula& formula);

// Enumerators of CommonFault (properties/core/planted.h) that change no result of the formula, or
// none visibly.
std::vector<std::string> hidden_faults(const Formula& formula);

}  // namespace assay
