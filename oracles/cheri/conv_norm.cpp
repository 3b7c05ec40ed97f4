// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/convolution.h"

namespace assay::cheri::oracle {

// y = (conv - mean) * rstd
Evaluate conv_norm(const Question& question, int, const Arithmetic& a, int fault) {
  const auto of = std::make_shared<const Convolution>(question, kX, kW, a, fault, 1.0);
  if (of->is_unchanged()) return {};
  return
      [of, &a, storage = question.recipe.storage](std::span<const int64_t> elements, std::span<Ball> values) {
        for (size_t i = 0; i < elements.size(); ++i) {
          const auto [n, l, c] = of->place(elements[i]);
          values[i] = a.round(storage, of->y(n, l, c));
        }
      };
}

}  // namespace assay::cheri::oracle
