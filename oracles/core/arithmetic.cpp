// SPDX-License-Identifier: Apache-2.0
#include "oracles/core/arithmetic.h"

#include <algorithm>
#include <array>

#include "oracles/core/lanes.h"

namespace assay {
namespace {

// A number of f32 that is no tie is at least 2^-24 of itself away from the nearest one. So these
// shifts move ties and nothing else: kTieShift in a sampled path, and kTieDoubt, which is wider, in
// the balls that hold it. Both survive the arithmetic in double, which loses 2^-53.
constexpr double kTieShift = 0x1p-50, kTieDoubt = 0x1p-40;

// The exponents of a scaled format. Products of six numbers of f32 lie between 2^-900 and 2^900, so
// nothing overflows or underflows. The last digits of the format's numbers are normal in double.
constexpr int kScaledExponents = 900;

const double kOverflow = overflow_threshold(format_of(DType::kF32));

// What a dot product adds up.
struct Sums {
  double value = 0, magnitude = 0, inherited = 0;  // of a*b, |a*b|, radii
  double least = 0, most = 0, step = 0;            // of prefix sums, and the largest step of |a*b|;
                                                   // not of less than kLanes products
};

static_assert(Sum::kStep % kLanes == 0);

[[gnu::always_inline]] inline Lanes radii_of(const Row& row, size_t i, size_t count) {
  return row.radius == nullptr ? Lanes{} : lanes_of(row.radius + i, count);
}

ASSAY_VECTORS Sums add_up_many(const Row& a, const Row& b) {
  Sums sums;
  Lanes inherited{};
  const bool is_certain = a.radius == nullptr && b.radius == nullptr;
  for (size_t begin = 0; begin < a.size; begin += Sum::kStep) {
    const size_t end = std::min(begin + Sum::kStep, a.size);
    Lanes value{}, magnitude{};
    for (size_t i = begin; i < end; i += kLanes) {
      const Lanes x = lanes_of(a.mid + i, end - i), y = lanes_of(b.mid + i, end - i), p = x * y;
      value += p;
      magnitude += magnitudes(p);
      if (is_certain) continue;
      const Lanes radii = radii_of(b, i, end - i);
      inherited += magnitudes(x) * radii;
      inherited += radii_of(a, i, end - i) * (magnitudes(y) + radii);
    }
    const double step = total(magnitude);
    sums.value += total(value);
    sums.magnitude += step;
    sums.step = std::max(sums.step, step);
    sums.least = std::min(sums.least, sums.value);
    sums.most = std::max(sums.most, sums.value);
  }
  sums.inherited = total(inherited);
  return sums;
}

// Without prefix sums and steps. It ends at what is not finite.
Sums add_up_few(const Row& a, const Row& b) {
  Sums sums;
  for (size_t i = 0; i < a.size && std::isfinite(sums.magnitude); ++i) {
    const double p = a.mid[i] * b.mid[i];
    sums.value += p;
    sums.magnitude += std::abs(p);
    if (a.radius == nullptr && b.radius == nullptr) continue;
    const Ball x = a[i], y = b[i];
    sums.inherited += std::abs(x.mid) * y.radius + x.radius * (std::abs(y.mid) + y.radius);
  }
  return sums;
}

// The sum of products of which some are infinite, NaN or open.
Ball add_up_special(const Row& a, const Row& b) {
  Ball sum;
  double finite = 0;  // what the finite terms reach
  for (size_t i = 0; i < a.size; ++i) {
    const Ball p = a[i] * b[i];
    if (std::isnan(p.mid)) return p;
    if (p.is_finite()) finite += std::abs(p.mid) + p.radius;
    sum = sum + p;
  }
  // They may overflow to the other infinity.
  return std::isinf(sum.mid) && finite * kMargin >= kOverflow ? Ball::open() : sum;
}

// Whether the sum of these products, all of them 0, is +0 in any order.
bool is_positive_zero(const Row& a, const Row& b) {
  if (!a.is_signed || !b.is_signed) return false;
  for (size_t i = 0; i < a.size; ++i) {
    if (!std::signbit(a.mid[i] * b.mid[i])) return true;
  }
  return false;
}

// Whether f32 adds up these products without rounding, in any order.
bool is_exact(const Row& a, const Row& b, double magnitude) {
  if (!is_f32(magnitude)) return false;  // nearly all sums end here, and those that overflow
  int grain = 1 << 20;
  for (size_t i = 0; i < a.size; ++i) {
    if (a.mid[i] * b.mid[i] == 0) continue;
    grain = std::min(grain, lowest_exponent(a.mid[i]) + lowest_exponent(b.mid[i]));
  }
  return grain >= -149 && magnitude <= std::ldexp(0x1p24, grain);
}

// What splitting factors into two numbers leaves out of their products.
ASSAY_VECTORS double left_out_of(const Row& a, const Row& b, double magnitude, const Sum& sum) {
  const FloatFormat& parts = *float_format(sum.factors);
  std::array<double, kLanes> lanes{}, largest{};
  for (size_t i = 0; i < a.size; ++i) {
    lanes[i % kLanes] += std::abs(a.mid[i]) + std::abs(b.mid[i]);
    largest[i % kLanes] = std::max({largest[i % kLanes], std::abs(a.mid[i]), std::abs(b.mid[i])});
  }
  double factors = 0;
  for (double lane : lanes) factors += lane;
  if (!sum.is_scaled && *std::ranges::max_element(largest) >= overflow_threshold(parts)) return HUGE_VAL;
  return 3 * std::ldexp(magnitude, -2 * parts.precision) + (sum.is_scaled ? 0 : factors * ulp_at(parts, 0));
}

// A ball around a value of f32 of which partial results reach `magnitude`.
Ball in_range(double value, double radius, double magnitude) {
  if (magnitude + radius < kOverflow) return {value, radius};
  // Certain if the terms of the other sign cannot overflow first.
  const double opposite = (magnitude - std::abs(value)) / 2 + radius;
  const bool is_certain = std::abs(value) - radius >= kOverflow * kMargin && opposite < kOverflow / kMargin;
  return is_certain ? Ball{std::copysign(HUGE_VAL, value), 0} : Ball::open();
}

double gelu_of(double z) {
  constexpr double kSlope = 1.5957691216057308;  // 2 sqrt(2/pi)
  return z / (1 + std::exp(-kSlope * (z + 0.044715 * z * z * z)));
}

// How far f goes from f(z.mid) at the ends of z, and at `extreme` if the ball holds its place.
template <class Function>
double reach(const Function& f, Ball z, double place, double extreme) {
  if (z.radius == 0) return 0;
  const double value = f(z.mid);
  double most = std::max(std::abs(f(z.mid - z.radius) - value), std::abs(f(z.mid + z.radius) - value));
  if (std::abs(z.mid - place) <= z.radius) most = std::max(most, std::abs(extreme - value));
  return most;
}

}  // namespace

Arithmetic Arithmetic::of_stage(Mode mode, int only) {
  Arithmetic arithmetic(mode);
  arithmetic.only_ = only;
  arithmetic.others_ = std::make_shared<Arithmetic>(mode == Mode::kBall ? Mode::kCarried : Mode::kExact);
  return arithmetic;
}

Ball Arithmetic::counted(Ball result) const {
  if (doubts_ != nullptr && result.radius > 0) ++*doubts_;
  return result;
}

Ball Arithmetic::round(DType storage, const Ball& value) const {
  if (!performs()) return value;
  const bool is_planted = has(Plant::Kind::kTruncated, Plant::kOutputs);
  Ball result = counted(rounded(format_of(storage), value,
                                is_planted ? Rounding::Mode::kTowardZero : Rounding::Mode::kNearestEven));
  result.is_signed = value.is_signed || (value.radius == 0 && value.mid != 0 && result.mid == 0);
  return result;
}

Ball Arithmetic::performed(const Rounding& rounding, const Ball& value, double lost) const {
  if (has(Plant::Kind::kNotRounded, rounding.site)) return value;
  const Rounding::Mode mode =
      has(Plant::Kind::kTruncated, rounding.site) ? Rounding::Mode::kTowardZero : rounding.mode;
  if (rounding.is_optional && mode_ == Mode::kSampled && chance(rounding.site.place) > 0) return value;
  Ball from = value;
  if (mode == Rounding::Mode::kNearest && value.is_finite()) {  // ties either way
    if (mode_ == Mode::kSampled)
      from.mid *= 1 + static_cast<double>(seed_ % 2) * kTieShift;
    else
      from.radius += kTieDoubt * std::abs(value.mid);
  }
  FloatFormat format = is_split(rounding.format) ? format_of(DType::kF32) : *float_format(rounding.format);
  if (rounding.is_scaled && value.is_finite()) {
    format.min_exponent = -kScaledExponents, format.max_exponent = kScaledExponents;
    if (mode_ == Mode::kSampled && lost > 0)  // its smallest number is at most twice `lost`
      format.min_exponent = std::ilogb(lost) + format.precision - static_cast<int>(seed_ % 2);
  }
  Ball result = is_split(rounding.format) && mode_ == Mode::kBall ? value : rounded(format, from, mode);
  if (mode_ == Mode::kSampled) return result;
  if (!result.is_finite()) return counted(rounding.is_optional && value.is_finite() ? Ball::open() : result);
  if (rounding.is_scaled && lost > 0) {
    // What is at least 2^(p-1) smallest numbers is normal for each scale.
    const bool is_normal =
        std::abs(value.mid) - value.radius >= lost * static_cast<double>(1 << format.precision);
    const double underflow = mode == Rounding::Mode::kTowardZero ? 2 * lost : lost;
    if (!is_normal && (value.mid != 0 || value.radius > 0)) result.radius += underflow;
  }
  if (rounding.is_optional)
    result.radius = std::max(result.radius, std::abs(result.mid - value.mid) + value.radius);
  return counted(result);
}

Ball Arithmetic::f32(const Ball& exact, double magnitude) const {
  if (!exact.is_finite()) return exact;
  if (mode_ == Mode::kExact) return {exact.mid, 0};
  if (mode_ == Mode::kSampled) return {static_cast<float>(exact.mid), 0};
  if (mode_ != Mode::kBall || (exact.radius == 0 && is_f32(exact.mid))) return exact;
  const double rounding = kUnit * (std::abs(exact.mid) + exact.radius);
  return in_range(exact.mid, (exact.radius + rounding) * kMargin + kUnderflow, magnitude);
}

Ball Arithmetic::multiply(const Ball& a, const Ball& b) const {
  const Ball p = a * b;
  if (p.mid != 0 || a.radius > 0 || b.radius > 0) return f32(p);
  const auto has_sign = [](Ball x) { return x.mid != 0 || x.is_signed; };
  return {.mid = p.mid, .is_signed = !std::signbit(p.mid) && has_sign(a) && has_sign(b)};
}

Ball Arithmetic::multiply_add(const Ball& a, const Ball& b, const Ball& c) const {
  const Ball p = a * b;
  if (mode_ == Mode::kSampled) return add(seed_ % 2 == 0 ? p : f32(p), c);
  Ball sum = p + c;
  const bool is_exact = sum.radius == 0 && is_f32(p.mid) && is_f32(sum.mid);
  if (!is_exact && sum.is_finite()) sum.radius += unit() * (std::abs(p.mid) + p.radius) + underflow();
  return f32(sum, std::abs(p.mid) + std::abs(c.mid));
}

Ball Arithmetic::dot(const Row& a, const Row& b, const Sum& sum, size_t roundings) const {
  if (mode_ == Mode::kSampled) return sampled_dot(a, b, sum, roundings);
  const Sums sums = a.size < kLanes ? add_up_few(a, b) : add_up_many(a, b);
  if (mode_ == Mode::kExact) return std::isfinite(sums.value) ? Ball{sums.value, 0} : add_up_special(a, b);
  const FloatFormat* const parts = is_split(sum.factors) ? float_format(sum.factors) : nullptr;
  if (!std::isfinite(sums.magnitude) || !std::isfinite(sums.inherited)) {
    const Ball special = add_up_special(a, b);
    // The rest of an infinity may be 0 or a NaN.
    return std::isinf(special.mid) && parts != nullptr ? Ball::open() : special;
  }
  if (mode_ == Mode::kCarried) return {sums.value, sums.inherited};
  const auto held = [&](double value, double radius, double magnitude) {
    const Ball ball = in_range(value, radius, magnitude);
    return (sum.is_scaled || sum.group > 0) && !ball.is_finite() ? Ball::open() : ball;
  };
  const bool is_ieee = parts == nullptr && !sum.truncates && sum.group == 0;
  if (sums.magnitude == 0 && sums.inherited == 0)
    return {.mid = 0, .is_signed = is_ieee && is_positive_zero(a, b)};
  if (sums.inherited == 0 && parts == nullptr && is_exact(a, b, sums.magnitude)) {
    if (sums.value == 0) return {.mid = 0, .is_signed = is_ieee};
    return held(sums.value, 0, sums.magnitude);
  }
  const bool is_rounded_once = a.size == 1 && is_ieee;
  if (sums.inherited == 0 && is_rounded_once) return held(static_cast<float>(sums.value), 0, sums.magnitude);
  const double additions = static_cast<double>(sum.group > 0 ? sum.group + 1 : std::min(roundings, a.size));
  const double n = additions * (parts == nullptr ? 1 : 3);
  // The products of parts add up to a little more than those of the factors.
  const double excess = parts == nullptr ? 1 : 1 + std::ldexp(4, -parts->precision);
  const double magnitude = (sums.magnitude + sums.inherited) * excess;
  double ordering = gamma(n, sum.unit()) * magnitude;
  if (sum.order == Sum::Order::kContiguous && a.size >= kLanes) {
    const double partial = sums.most - sums.least + sums.step + sums.inherited + sum.unit() * magnitude;
    ordering = std::min(ordering, gamma(n, sum.unit()) * partial + sum.unit() * magnitude);
  }
  const double left_out = parts == nullptr ? 0 : left_out_of(a, b, magnitude, sum);
  const double own = static_cast<double>(a.size) * 0x1p-53 * sums.magnitude;
  const double underflows = 2 * std::max(n, static_cast<double>(a.size)) * kUnderflow;
  const double radius = (sums.inherited + ordering + left_out + own) * kMargin + underflows;
  return held(sums.value, radius, magnitude);
}

Ball Arithmetic::in_f32(const Ball& z, const Image& image) const {
  if (std::isnan(z.mid)) return {kNan, 0};
  if (z.is_open()) return z;
  if (mode_ == Mode::kExact || std::isinf(z.mid)) return {image.value, 0};
  if (mode_ == Mode::kSampled) {
    const double rounding = std::max(std::abs(image.value), 0x1p-126);  // of the result; times u
    const double off = std::max(image.fault, (image.granted + image.lost - rounding) * kUnit);
    const double result = image.value + chance(z.mid) * off;
    return {std::signbit(result) == std::signbit(image.value) ? static_cast<float>(result) : 0, 0};
  }
  return {image.value, (image.reach + image.granted * unit()) * kMargin + image.lost * unit()};
}

Ball Arithmetic::sigmoid(const Ball& z) const {
  const auto f = [](double x) { return 1 / (1 + std::exp(-x)); };
  const double value = f(z.mid), low = f(z.mid - z.radius), high = f(z.mid + z.radius);
  return in_f32(z, {.value = value,
                    .reach = std::max(high - value, value - low),
                    .granted = (4 + (8 + 2 * (std::abs(z.mid) + z.radius)) * (1 - low)) * high,
                    .lost = 0x1p-102,
                    .fault = has(Plant::Kind::kSigmoidOff) ? 5e-4 : 0});
}

Ball Arithmetic::gelu(const Ball& z) const {
  if (z.mid == 0 && z.radius == 0) return {z.mid, 0};
  const double value = gelu_of(z.mid), reached = reach(gelu_of, z, -0.75246142207, -0.17004075058);
  return in_f32(z, {.value = value,
                    .reach = reached,
                    .granted = 8 * (std::abs(value) + reached) + 4 * (std::abs(z.mid) + z.radius),
                    .lost = 0x1p-125,
                    .fault = has(Plant::Kind::kGeluOff) ? 2.5e-4 * std::abs(z.mid) : 0});
}

Ball Arithmetic::rsqrt(const Ball& v, double epsilon) const {
  const auto f = [added = planted(epsilon)](double x) { return 1 / std::sqrt(std::max(x, 0.0) + added); };
  return in_f32(v, {.value = f(v.mid),
                    .reach = reach(f, v, 0, f(0)),
                    .granted = 4 * f(v.mid - v.radius),
                    .lost = 0x1p-126});
}

}  // namespace assay
