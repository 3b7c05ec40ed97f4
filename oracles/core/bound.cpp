// SPDX-License-Identifier: Apache-2.0
#include "oracles/core/bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace assay {

double gamma(double n, double unit) {
  return n * unit < 1 ? n * unit / (1 - n * unit) : HUGE_VAL;
}

void SumOfProducts::add(double a, double b) {
  const double product = a * b;
  sum_ += product;
  if (product == 0 || !std::isfinite(product)) return;
  count(product, lowest_exponent(a) + lowest_exponent(b));
}

void SumOfProducts::add_scaled(double scale, double a, double b) {
  const double product = scale * a * b;
  sum_ += product;
  if (product == 0 || !std::isfinite(product)) return;
  count(product, lowest_exponent(a) + lowest_exponent(b) + std::min(lowest_exponent(scale), 0));
  is_scaled_ = true;
  scales_ += std::abs(scale);
  square_scales_ += scale * scale;
}

void SumOfProducts::count(double product, int grain) {
  magnitude_ += std::abs(product);
  squares_ += product * product;
  grain_ = terms_ == 0 ? grain : std::min(grain_, grain);
  ++terms_;
}

bool SumOfProducts::is_exact(DType accumulate) const {
  return terms_ == 0 || (smallest_subnormal(accumulate) <= std::ldexp(1.0, grain_) &&
                         magnitude_ <= std::ldexp(1.0 / unit_roundoff(accumulate), grain_));
}

double SumOfProducts::error(DType accumulate) const {
  if (is_exact(accumulate)) return 0;
  const double relative = gamma(roundings(), unit_roundoff(accumulate));
  const double underflow = smallest_subnormal(accumulate) / 2;
  return relative * magnitude_ + (terms_ + scales_) * underflow * (1 + relative);
}

double SumOfProducts::variance(DType accumulate) const {
  if (is_exact(accumulate)) return 0;
  const double rounding = unit_roundoff(accumulate) * magnitude_;
  const double underflow = smallest_subnormal(accumulate) / 2;
  return roundings() * rounding * rounding / 3 + (terms_ + square_scales_) * underflow * underflow / 3;
}

double SumOfProducts::noise(const Recipe& recipe) const {
  const double mean = terms_ > 0 ? sum_ / terms_ : 0;
  const bool are_alike = terms_ > 0 && squares_ / terms_ - mean * mean < mean * mean / 64;
  return are_alike ? error(recipe.accumulate) : 7 * std::sqrt(variance(recipe.accumulate));
}

Expected SumOfProducts::expected(const Recipe& recipe) const {
  const DType accumulate = recipe.accumulate;
  if (recipe.product != accumulate)
    throw Error("the bound is derived for products and sums in one dtype, not {}", recipe.to_string());
  const bool exact = is_exact(accumulate);
  double bound = error(accumulate);
  double variance = this->variance(accumulate);
  if (recipe.storage != accumulate && std::isfinite(sum_)) {
    const double ulp = ulp_at(recipe.storage, std::abs(sum_) + bound);
    const double discarded = std::remainder(sum_, ulp);
    if (!exact || discarded != 0) {
      bound += ulp / 2;
      variance += exact ? discarded * discarded : ulp * ulp / 12;
    }
  }
  const double oracle_error = std::max(roundings() - 1, 0) * unit_roundoff(DType::kF64) * magnitude_;
  return {.value = sum_, .bound = bound + (exact ? 0 : oracle_error), .variance = variance};
}

double most_repeats(std::span<const double> values) {
  struct Slot {
    double value = 0;
    uint32_t count = 0;
  };
  const size_t size = std::bit_ceil(2 * values.size() + 2);
  // [bits] Shifted away: only the upper bits of the product depend on all bits of a value.
  const int unused = 64 - std::countr_zero(size);
  std::vector<Slot> slots(size);  // at most half are in use
  uint32_t most = 1;
  for (double value : values) {
    const uint64_t bits = std::bit_cast<uint64_t>(value + 0.0);  // makes -0 and 0 equal
    size_t at = bits * 0x9E3779B97F4A7C15u >> unused;
    while (slots[at].count > 0 && slots[at].value != value) at = (at + 1) & (size - 1);
    slots[at].value = value;
    most = std::max(most, ++slots[at].count);
  }
  return most;
}

}  // namespace assay
