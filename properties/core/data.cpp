// SPDX-License-Identifier: Apache-2.0
#include "properties/core/data.h"

#include <array>

#include "properties/core/text.h"

namespace assay {
namespace {

using enum Regime;
using enum Ingredient;

constexpr std::array kRegimes{kNormal, kUniform, kPositive,  kIntegers, kOffset, kHeavyTail,
                              kTiny,   kHuge,    kSubnormal, kConstant, kSpike,  kNonfinite};
constexpr std::array kIngredients{kEqual, kScales,     kLargeInput, kSubnormalWeights,
                                  kMask,  kZeros,      kOnes,       kInfinities,
                                  kNans,  kLargeIndex, kNearLimit,  kTinyProducts};

}  // namespace

std::span<const Regime> all_regimes() {
  return kRegimes;
}
std::span<const Ingredient> all_ingredients() {
  return kIngredients;
}

std::string_view name_of(Regime regime) {
  switch (regime) {
    case kNormal:
      return "normal";
    case kUniform:
      return "uniform";
    case kPositive:
      return "positive";
    case kIntegers:
      return "integers";
    case kOffset:
      return "offset";
    case kHeavyTail:
      return "heavy_tail";
    case kTiny:
      return "tiny";
    case kHuge:
      return "huge";
    case kSubnormal:
      return "subnormal";
    case kConstant:
      return "constant";
    case kSpike:
      return "spike";
    case kNonfinite:
      return "nonfinite";
  }
  throw Error("Regime({}) is not a regime", static_cast<int>(regime));
}

std::string_view name_of(Ingredient ingredient) {
  switch (ingredient) {
    case kEqual:
      return "equal";
    case kScales:
      return "scales";
    case kLargeInput:
      return "large_input";
    case kSubnormalWeights:
      return "subnormal_weights";
    case kMask:
      return "mask";
    case kZeros:
      return "zeros";
    case kOnes:
      return "ones";
    case kInfinities:
      return "infinities";
    case kNans:
      return "nans";
    case kLargeIndex:
      return "large_index";
    case kNearLimit:
      return "near_limit";
    case kTinyProducts:
      return "tiny_products";
  }
  throw Error("Ingredient({}) is not an ingredient", static_cast<int>(ingredient));
}

Data& Data::mix_in(Ingredient ingredient) {
  if (has(ingredient)) return *this;
  ingredients_.push_back(ingredient);
  std::ranges::sort(ingredients_);
  return *this;
}

bool Data::is_finite() const {
  return regime_ != kNonfinite && !has(kInfinities) && !has(kNans);
}

bool Data::is_ordinary() const {
  const bool is_about_one =
      regime_ == kNormal || regime_ == kUniform || regime_ == kPositive || regime_ == kIntegers;
  return is_about_one && std::ranges::all_of(ingredients_, [](Ingredient ingredient) {
           return ingredient == kEqual || ingredient == kMask || ingredient == kZeros || ingredient == kOnes;
         });
}

std::string Data::to_string() const {
  std::string text(name_of(regime_));
  for (Ingredient ingredient : ingredients_) text += fmt::format("+{}", name_of(ingredient));
  return text;
}

Data parse_data(std::string_view text) {
  const std::vector<std::string_view> words = split(text, '+');
  Data data = parse_name("data", words.front(), all_regimes());
  for (std::string_view word : std::span(words).subspan(1)) {
    const Ingredient ingredient = parse_name("data", word, all_ingredients());
    if (data.has(ingredient)) throw usage_error("data={}: '{}' stands twice", excerpt(text), word);
    data.mix_in(ingredient);
  }
  return data;
}

}  // namespace assay
