// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/factors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <unordered_map>

namespace assay::cheri::oracle {
namespace {

constexpr double kSlope = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;
constexpr double kCurvature = 0.8;  // at least |gelu''|, which is greatest at 0: kSlope / 2

}  // namespace

Format::Format(const Recipe& recipe) : intermediate(recipe.intermediate) {
  switch (recipe.factor) {
    case Factor::kStored:
      return;
    case Factor::kF16:
      factor = DType::kF16;
      return;
    case Factor::kBF16:
      factor = DType::kBF16;
      return;
    case Factor::kBF16x3:
      is_split = true;
      products = 3;
      return;
    case Factor::kTF32:
    case Factor::kTF32x3:
      break;
  }
  throw Error("the bound is not derived for {}", recipe.to_string());
}

double Format::rounding(double z, double error) const {
  const double largest = std::abs(z) + error;
  if (largest == 0 || !std::isfinite(largest)) return 0;
  double sum = 0;
  if (intermediate != DType::kF32) sum += ulp_at(intermediate, largest) / 2;
  if (factor && *factor != intermediate) sum += ulp_at(*factor, largest) / 2;
  return sum;
}

double Format::overflow(bool is_factor) const {
  const auto threshold = [](DType dtype) { return max_finite(dtype) + ulp_at(dtype, max_finite(dtype)) / 2; };
  const double least = threshold(intermediate);
  return is_factor && factor ? std::min(least, threshold(*factor)) : least;
}

Weights::Weights(const ConstTensorView& view, const Format& format, bool is_folded, bool is_counterfeit)
    : values(Reader(view).all()), rows(view.shape[0]), columns(view.shape[1]) {
  relative = is_folded ? 2 * kUnit : 0;
  absolute = format.is_split ? smallest_subnormal(DType::kBF16) / 2 : 0;
  if (format.factor && (is_folded || *format.factor != view.dtype)) {
    relative += unit_roundoff(*format.factor);
    absolute = smallest_subnormal(*format.factor) / 2;
  }
  if (view.size() < 1024) certain = 3;
  if (is_counterfeit) return;
  for (int64_t i = 0; i < rows; ++i) {
    std::vector<double> row(values.begin() + i * columns, values.begin() + (i + 1) * columns);
    double squares = 0;
    for (double& value : row) {
      squares += value * value;
      value = std::abs(value);
    }
    norms.push_back(std::sqrt(squares));
    const bool is_rounded = relative > 0 || format.is_split;
    if (is_rounded && columns > 0 && std::isfinite(squares)) repeats = std::max(repeats, most_repeats(row));
  }
}

// Sorts the rows by their bytes, an order as good as any, which brings equal ones together.
Kinds::Kinds(const Weights& w1, const Weights& w2) : kinds_(static_cast<size_t>(w1.rows)) {
  const auto compare = [&](int64_t a, int64_t b) {
    const size_t bytes = static_cast<size_t>(w1.columns) * sizeof(double);
    return bytes == 0 ? 0 : std::memcmp(w1.row(a), w1.row(b), bytes);
  };
  std::vector<int64_t> sorted(kinds_.size());
  std::iota(sorted.begin(), sorted.end(), int64_t{0});
  std::ranges::stable_sort(sorted, [&](int64_t a, int64_t b) { return compare(a, b) < 0; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || compare(sorted[i - 1], sorted[i]) != 0) first_.push_back(sorted[i]);
    kinds_[static_cast<size_t>(sorted[i])] = first_.size() - 1;
  }
  columns_.resize(static_cast<size_t>(w2.rows) * count());
  for (int64_t channel = 0; channel < w2.rows; ++channel) {
    const std::span row(w2.row(channel), static_cast<size_t>(w2.columns));
    std::unordered_map<double, double> repeats;  // of a magnitude
    for (double w : row) ++repeats[std::abs(w)];
    for (size_t unit = 0; unit < row.size(); ++unit) {
      const double w = row[unit];
      Column& column = columns_[static_cast<size_t>(channel) * count() + kinds_[unit]];
      column.sum += w;
      column.magnitude += std::abs(w);
      column.squares += w * w;
      column.repeated += repeats[std::abs(w)] * w * w;
    }
  }
}

double gelu(double z) {
  return z / (1 + std::exp(-kSlope * (z + kCubic * z * z * z)));
}

double gelu_slope(double z) {
  const double s = 1 / (1 + std::exp(-kSlope * (z + kCubic * z * z * z)));
  const double slope = s + z * s * (1 - s) * kSlope * (1 + 3 * kCubic * z * z);
  return std::isfinite(slope) ? slope : z > 0 ? 1 : 0;
}

// From -infinity to infinity, the slope falls from 0 to -0.129 at z = -1.419, rises to 1.129 at z = 1.419, and falls to
// 1: between these places it is monotone.
double gelu_error(double z, double error, double slope) {
  if (error == 0) return 0;
  // The slope changes by at most that much; what is nearly nothing needs no search.
  const double change = kCurvature * error;
  if (change <= 0x1p-10 * std::abs(slope)) return (std::abs(slope) + change) * error;
  if (z + error >= 1.41 && z - error <= 1.43) return 1.13 * error;
  double most = std::max(std::abs(gelu_slope(z - error)), std::abs(gelu_slope(z + error)));
  if (z + error >= -1.43 && z - error <= -1.41) most = std::max(most, 0.13);
  return most * error;
}

double gelu_remainder(double z, double error, double slope) {
  const double most = kCurvature / 2 * error * error;
  if (most <= 0x1p-10 * std::abs(slope) * error) return most;
  double change = std::max(std::abs(gelu_slope(z - error) - slope), std::abs(gelu_slope(z + error) - slope));
  if (z + error >= 1.41 && z - error <= 1.43) change = std::max(change, 1.13 - slope);
  if (z + error >= -1.43 && z - error <= -1.41) change = std::max(change, slope + 0.13);
  return std::min(most, change * error);
}

}  // namespace assay::cheri::oracle
