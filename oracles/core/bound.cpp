// SPDX-License-Identifier: Apache-2.0
#include "oracles/core/bound.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace assay {
namespace {

// n*u / (1 - n*u), for n roundings with unit roundoff u.
double gamma(int n, double u) {
  return n * u / (1 - n * u);
}

}  // namespace

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
  grain_ = terms_ == 0 ? grain : std::min(grain_, grain);
  ++terms_;
}

Expected SumOfProducts::expected(const Recipe& recipe) const {
  const DType accumulate = recipe.accumulate;
  if (recipe.product != accumulate)
    throw Error("the bound is derived for products and sums in one dtype, not {}", recipe.to_string());
  const double u = unit_roundoff(accumulate);
  const double s = smallest_subnormal(accumulate);
  const bool exact =
      terms_ == 0 || (s <= std::ldexp(1.0, grain_) && magnitude_ <= std::ldexp(1.0 / u, grain_));

  double error = 0;  // of the sum before it is stored
  double variance = 0;
  if (!exact) {
    const int roundings = terms_ + is_scaled_;
    error = gamma(roundings, u) * magnitude_ + (terms_ + scales_) * s / 2 * (1 + gamma(roundings, u));
    variance = roundings * (u * magnitude_) * (u * magnitude_) / 3 +
               (terms_ + square_scales_) * (s / 2) * (s / 2) / 3;
  }
  const double oracle_error = std::max(terms_ - 1 + is_scaled_, 0) * unit_roundoff(DType::kF64) * magnitude_;

  if (recipe.storage != accumulate && std::isfinite(sum_)) {
    const double ulp = ulp_at(recipe.storage, std::abs(sum_) + error);
    const bool representable = error == 0 && std::fmod(sum_, ulp) == 0;
    if (!representable) {
      error += ulp / 2;
      variance += ulp * ulp / 12;
    }
  }
  return {.value = sum_, .bound = error + (exact ? 0 : oracle_error), .variance = variance};
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
