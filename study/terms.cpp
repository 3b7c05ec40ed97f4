// SPDX-License-Identifier: Apache-2.0
#include "study/terms.h"

#include <algorithm>

namespace assay::study {
namespace {

constexpr size_t kGroup = 7;
constexpr double kRoundings = 3 * (kGroup + 1);

// Outputs are not rounded, and all sums have small balls that depend on S alone. The one at
// `truncated` truncates; null: none does.
Recipe recipe_of(const Oracle& oracle, const Site* truncated) {
  Recipe recipe{.storage = DType::kF64};
  for (const Site& site : oracle.sums) {
    recipe.sums.push_back({.site = site,
                           .factors = Format::kBF16x3,
                           .truncates = truncated != nullptr && site == *truncated,
                           .group = kGroup});
  }
  return recipe;
}

}  // namespace

std::vector<double> sizes_of_terms(const Oracle& oracle, const Question& question, int output,
                                   std::span<const int64_t> elements, int64_t row) {
  const auto balls_of = [&](const Site* truncated) {
    Question asked = question;
    asked.recipe = recipe_of(oracle, truncated);
    return evaluate(oracle, asked, output, Arithmetic(Arithmetic::Mode::kBall), elements, row);
  };
  const std::vector<Ball> rounded = balls_of(nullptr);
  std::vector<Site> sums = oracle.sums;
  std::ranges::sort(sums, std::greater(), &Site::place);
  for (const Site& last : sums) {
    const std::vector<Ball> wider = balls_of(&last);
    std::vector<double> sizes;
    bool reaches = false;
    for (size_t i = 0; i < wider.size(); ++i) {
      const bool is_known = rounded[i].is_finite() && wider[i].is_finite();
      sizes.push_back(is_known ? (wider[i].radius - rounded[i].radius) / (kRoundings * kUnit) : kNan);
      reaches |= is_known && sizes.back() > 0;
    }
    if (reaches) return sizes;
  }
  return {};
}

}  // namespace assay::study
