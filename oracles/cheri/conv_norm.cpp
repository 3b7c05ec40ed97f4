// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "oracles/cheri/statistics.h"

namespace assay::cheri::oracle {

Solve conv_norm(Fault fault) {
  return [fault](const Question& question, int) -> Answer {
    require_f32_recipe(question.recipe);
    const Taps taps(question, question.inputs[kW], fault);
    auto statistics = all_statistics(question.inputs[kX], taps, fault);
    if (statistics == nullptr) return nullptr;
    return [&question, taps, statistics = std::move(statistics)](std::span<const int64_t> elements,
                                                                 std::span<Expected> expected) {
      const Reader x(question.inputs[kX]);
      for (size_t i = 0; i < elements.size(); ++i) {
        const int64_t c = elements[i] % taps.channels;
        const int64_t l = elements[i] / taps.channels % taps.length;
        const int64_t n = elements[i] / taps.count();
        const Statistics& s = (*statistics)[n];
        const auto x_at = [&](int64_t at, int64_t channel) { return x({n, at, channel}); };
        const ConvValue conv = taps.at(x_at, l, c);
        const Normalised y = normalise(s, conv);
        expected[i] =
            s.is_open && !s.is_nan ? open() : stored(y.value, y.error, y.variance, question.recipe.storage);
      }
    };
  };
}

}  // namespace assay::cheri::oracle
