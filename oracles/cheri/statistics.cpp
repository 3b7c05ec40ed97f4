// SPDX-License-Identifier: Apache-2.0
#include "oracles/cheri/statistics.h"

#include <functional>
#include <limits>

namespace assay::cheri::oracle {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kLambda = 7;         // exceeded with probability 2 exp(-lambda^2/2) = 5e-11
constexpr double kRstdRoundings = 3;  // variance to f32, eps added, root and quotient: half, half, one, one

// Mean, variance and rstd; `value_of` makes a value of an element of `values`.
template <class Values, class ValueOf>
Statistics moments(const Values& values, const ValueOf& value_of) {
  const auto count = static_cast<double>(values.size());
  Statistics result;
  const double reference = value_of(values.front());
  double sum = 0, rest = 0, squares = 0;
  bool is_constant = true;
  for (const auto& value : values) {
    sum += value_of(value) - reference;
    is_constant &= value_of(value) == reference;
  }
  result.mean = reference + sum / count;
  for (const auto& value : values) rest += value_of(value) - result.mean;
  result.mean = is_constant ? reference : result.mean + rest / count;
  for (const auto& value : values) {
    const double d = value_of(value) - result.mean;
    squares += d * d;
  }
  result.variance = squares / count;
  result.rstd = 1 / std::sqrt(result.variance + kEpsilon);
  result.is_single = values.size() == 1;
  return result;
}

}  // namespace

double limit_of_sum(double worst, double squares, double repeats) {
  return std::min(worst, kLambda * std::sqrt(repeats * squares));
}

double additions_in_f64(double n, double repeats) {
  return std::min(n, kLambda * std::sqrt(repeats * n));
}

ConvValue SumOfThree::result() const {
  ConvValue conv{.value = value_, .magnitude = magnitude_, .grain = grain_};
  const bool is_exact = count_ == 0 || (grain_ >= -149 && magnitude_ <= power_of_two(grain_ + 24));
  if (is_exact) return conv;
  const int n = count_;
  conv.error =
      gamma(n, kUnit) * magnitude_ + n * kUnderflow * (1 + gamma(n, kUnit)) + n * kUnit64 * magnitude_;
  double squares = 0;  // of the products
  double longest = 0;  // of a sum of two of three products
  for (int i = 0; i < n; ++i) {
    squares += products_[i] * products_[i];
    longest = std::max(longest, std::abs(value_ - products_[i]));
  }
  const double sums = (n >= 2 ? value_ * value_ : 0) + (n == 3 ? longest * longest : 0);
  conv.variance = (kUnit * kUnit * (squares + sums) + n * kUnderflow * kUnderflow) / 3;
  return conv;
}

Taps::Taps(const Question& question, const ConstTensorView& w, Fault fault)
    : length(question.dims[kL]), channels(question.dims[kC]), dilation(question.dims[kDilation]) {
  weights = Reader(w).all();
  // One or two normalised values are 0 or +-1, nearly whatever the convolution is.
  if (count() <= 2) return;
  const int64_t right = dilation;
  if (fault == Fault::kDilationTooLarge) ++dilation;
  if (fault == Fault::kDilationTooSmall && dilation > 1) --dilation;
  if (fault == Fault::kFirstTapDropped) first = 1;
  // From a distance of L on, only the middle tap meets an element.
  is_changed = (first > 0 || dilation != right) && std::min(dilation, right) < length;
}

std::vector<ConvValue> convolve(const std::vector<double>& example, const Taps& taps) {
  std::vector<ConvValue> values(example.size());
  const auto x = [&](int64_t l, int64_t c) { return example[static_cast<size_t>(l * taps.channels + c)]; };
  size_t i = 0;
  for (int64_t l = 0; l < taps.length; ++l) {
    for (int64_t c = 0; c < taps.channels; ++c) values[i++] = taps.at(x, l, c);
  }
  return values;
}

std::vector<double> convolve_values(const std::vector<double>& example, const Taps& taps) {
  std::vector<double> values(example.size());
  const auto x = [&](int64_t l, int64_t c) { return example[static_cast<size_t>(l * taps.channels + c)]; };
  size_t i = 0;
  for (int64_t l = 0; l < taps.length; ++l) {
    for (int64_t c = 0; c < taps.channels; ++c) values[i++] = taps.value_at(x, l, c);
  }
  return values;
}

Statistics nan_statistics() {
  return {.mean = kNan, .rstd = kNan, .is_nan = true};
}

Statistics values_of(const std::vector<double>& values) {
  // Infinities and NaNs, also by certain overflow in f32.
  if (std::ranges::any_of(values, [](double value) { return !(std::abs(value) < kOverflow); })) {
    return nan_statistics();
  }
  return moments(values, std::identity());
}

Statistics statistics_of(const std::vector<ConvValue>& values) {
  const auto count = static_cast<double>(values.size());
  bool is_nan = false, is_open = false;
  double lowest = HUGE_VAL, highest = -HUGE_VAL;
  double errors = 0, squared_errors = 0, variances = 0;
  for (const ConvValue& conv : values) {
    if (!std::isfinite(conv.value) || std::abs(conv.value) - conv.error >= kOverflow) is_nan = true;
    if (conv.magnitude + conv.error >= kOverflow) is_open = true;
    lowest = std::min(lowest, conv.value);
    highest = std::max(highest, conv.value);
    errors += conv.error;
    squared_errors += conv.error * conv.error;
    variances += conv.variance;
  }
  if (is_nan) return {.mean = kNan, .rstd = kNan, .is_nan = true, .is_open = is_open};
  Statistics result = moments(values, [](const ConvValue& conv) { return conv.value; });
  result.is_open = is_open;
  if (result.is_single) return result;

  double products = 0, squared_products = 0;  // of d and the error
  double product_variances = 0;
  double furthest = 0;  // limit of |d| in the rounded values
  std::vector<double> magnitudes, distances;
  magnitudes.reserve(values.size());
  for (const ConvValue& conv : values) {
    const double d = std::abs(conv.value - result.mean);
    products += d * conv.error;
    squared_products += d * conv.error * d * conv.error;
    product_variances += d * d * conv.variance;
    furthest = std::max(furthest, d + conv.error);
    magnitudes.push_back(std::abs(conv.value) + conv.error);
    if (conv.error == 0) distances.push_back(d);
  }
  // Rounding is odd: the convolution treats c and -c alike but for the sign, normalisation c - mean and mean - c.
  result.repeats = std::max(most_repeats(magnitudes), most_repeats(distances));
  const double r = result.repeats;
  // At least any deviation, from the mean or from another value.
  const double largest = highest - lowest + 2 * furthest;
  result.reach = largest * result.rstd;
  const double u = kUnit, in_f64 = additions_in_f64(count + 4, r) * kUnit64;
  if (largest > 0) {
    const double mean = std::abs(result.mean);
    // The second of two f32 that hold the mean may be subnormal.
    const double underflow = mean > 0 && mean < 0x1p-100 ? kUnderflow : 0;
    result.held_error = in_f64 * (mean + 2 * largest) + 4 * u * u * mean + underflow;
  }
  result.mean_error = limit_of_sum(errors, squared_errors, r) / count + result.held_error;
  result.mean_variance = r * variances / count / count + result.held_error * result.held_error / 3;

  const double variance = result.variance;
  const double variance_error = limit_of_sum(2 * products, 4 * squared_products, r) / count +
                                squared_errors / count +
                                4 * in_f64 * largest * (largest + std::abs(result.mean) * u);
  const double exact = variance + kEpsilon;
  const double least = std::max(variance - variance_error, 0.0) + kEpsilon;
  // The lower end is the farther one, unless a variance below its error cuts it off.
  const double from_variance =
      std::max(std::sqrt(exact / least) - 1, 1 - std::sqrt(exact / (exact + variance_error)));
  const double subnormal = result.rstd < 0x1p-126 ? kUnderflow / result.rstd : 0;
  result.rstd_error = (1 + from_variance) * (1 + gamma(kRstdRoundings, u)) - 1 + subnormal;
  const double relative = std::sqrt(r * product_variances) / count / (variance + kEpsilon);
  result.rstd_variance = relative * relative + (kRstdRoundings * u * u + subnormal * subnormal) / 3;
  return result;
}

void leave_epsilon_out(Statistics& s, Fault fault, const Taps& taps) {
  const double below = fault == Fault::kNoEpsilon ? 1 : fault == Fault::kNoEpsilonInTiny ? kEpsilon / 4 : 0;
  if (s.is_nan || taps.count() <= 2 || s.variance >= below) return;
  s.rstd = 1 / std::sqrt(s.variance);
  s.has_epsilon = false;
}

AllStatistics all_statistics(const ConstTensorView& x, const Taps& taps, Fault fault) {
  const auto compute = [&x, taps, fault](int64_t n) {
    const std::vector<double> example = Reader(x).all({n});
    if (fault == Fault::kNothing) return statistics_of(convolve(example, taps));
    Statistics values = values_of(convolve_values(example, taps));
    leave_epsilon_out(values, fault, taps);
    return values;
  };
  auto all = std::make_shared<const PerExample<Statistics>>(x.size() == 0 ? 0 : x.shape[0], compute);
  const auto compute_all = [&] { all->compute_all(taps.count()); };
  switch (fault) {
    case Fault::kNothing:
      compute_all();
      return all;
    case Fault::kDilationTooLarge:
    case Fault::kDilationTooSmall:
    case Fault::kFirstTapDropped:
      return taps.is_changed ? all : nullptr;
    case Fault::kNoEpsilon:
    case Fault::kNoEpsilonInTiny:
      compute_all();
      for (int64_t n = 0; n < all->size(); ++n) {
        if (!(*all)[n].has_epsilon) return all;
      }
      return nullptr;
    case Fault::kMeanKept:
    case Fault::kNoGelu:
    case Fault::kScaleTwice:
    case Fault::kNoScale:
      return all;
  }
  throw Error("Fault({}) is not a fault", static_cast<int>(fault));
}

Normalised normalise(const Statistics& s, const ConvValue& conv) {
  Normalised y{.value = (conv.value - s.mean) * s.rstd};
  if (s.is_single && !s.is_nan) return y;  // conv - conv
  const double rstd = s.rstd * (1 + s.rstd_error);
  const double magnitude = std::abs(y.value) * (1 + s.rstd_error) + rstd * (conv.error + s.mean_error);
  // Of the product, and of a difference from a mean in f64.
  const double of_product = magnitude > 0 && magnitude < 0x1p-124 ? kUnderflow : 0;
  const double of_difference = magnitude > 0 && magnitude < 0x1p-124 * rstd ? rstd * kUnderflow : 0;
  const double underflow = of_product + of_difference;
  y.subtracting = gamma(2, kUnit) * magnitude + of_difference;
  y.local = gamma(3, kUnit) * magnitude + underflow;
  y.own = rstd * conv.error + y.local;
  y.error = y.own + rstd * s.mean_error + std::abs(y.value) * s.rstd_error;
  const double square = y.value * y.value;
  y.own_variance = s.rstd * s.rstd * conv.variance + kUnit * kUnit * square + underflow * underflow / 3;
  y.variance = y.own_variance + s.rstd * s.rstd * s.mean_variance + square * s.rstd_variance;
  return y;
}

Expected stored(double value, double error, double variance, DType storage) {
  if (!std::isfinite(value)) return {.value = value, .bound = 0, .variance = 0};
  const double noise = kLambda * std::sqrt(variance);
  if (std::abs(value) <= 0x1p-24 * error) value = 0;  // less than what the oracle itself can tell from 0
  error *= 1 + 0x1p-20;                               // second order, and the oracle's own error
  if (storage != DType::kF32) {
    const double ulp = ulp_at(storage, std::abs(value) + error);
    const bool is_representable = error == 0 && std::fmod(value, ulp) == 0;
    if (!is_representable) {
      error += ulp / 2;
      variance += ulp * ulp / 12;
    }
  }
  return {.value = value, .bound = error, .variance = variance, .is_open = false, .noise = noise};
}

void require_f32_recipe(const Recipe& recipe) {
  if (recipe.product != DType::kF32 || recipe.accumulate != DType::kF32)
    throw Error("the bound is derived for products and sums in f32, not {}", recipe.to_string());
}

}  // namespace assay::cheri::oracle
