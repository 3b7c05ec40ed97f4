// SPDX-License-Identifier: Apache-2.0
// Arithmetic in Mode::kSampled: what one right path at random computes. Its choices depend on the
// seed, its roundings on the values alone.
#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "oracles/core/arithmetic.h"

namespace assay {
namespace {

// The finalizer of MurmurHash3 with the constants of SplitMix64 (Steele, Lea, Flood 2014).
uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// The nearest number of f32 that is not farther from 0; where f32 underflows, the nearest.
float truncated(double value) {
  constexpr int64_t kKeptBits = -(int64_t{1} << 29);
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<int64_t>(value) & kKeptBits));
}

// The nearest number of so many bits, some tie either way [Veltkamp 1968]. Nothing underflows.
double high_part(double value, int precision) {
  const double shifted = value * (static_cast<double>(int64_t{1} << (53 - precision)) + 1);
  return shifted - (shifted - value);
}

// How the path adds up, chosen by the seed. The first two seeds are the plainest paths, one chain
// of additions with and without fused multiply-adds, or of the smallest blocks of a tensor core.
// Their functions are off by all that they are granted, in one direction: they err the most.
struct Habit {
  explicit Habit(uint64_t seed, const Sum& sum) {
    if (seed < 2) {
      is_fused = seed == 0;
      if (sum.truncates) block = 4;
      return;
    }
    uint64_t bits = mix(seed + 0x9E3779B97F4A7C15u);
    const auto choose = [&bits](uint64_t count) {
      const uint64_t chosen = bits % count;
      bits /= count;
      return chosen;
    };
    parts = size_t{1} << choose(6);
    is_strided = choose(2) == 1 && sum.order == Sum::Order::kAny;
    is_descending = choose(2) == 1;
    is_fused = choose(2) == 1;
    is_pairwise = choose(2) == 1;
    if (sum.truncates && choose(4) > 0) block = size_t{4} << choose(3);
  }

  // Adds up evenly, as norms of rows do.
  void level(size_t count) {
    parts = std::max(parts, std::min<size_t>(32, std::bit_ceil((count + 31) / 32)));
    is_pairwise = true;
  }

  // A sum as the path keeps it.
  float kept(float sum) const {
    return kept_in == nullptr ? sum : static_cast<float>(rounded(*kept_in, sum));
  }

  size_t parts = 1;  // that are summed apart
  bool is_strided = false, is_descending = false, is_fused = false, is_pairwise = false;
  size_t block = 0;  // products that a tensor core adds to the sum at once, truncating, or 0
  const FloatFormat* kept_in = nullptr;  // a fault: the format of the sum, if not f32
};

// Adds up in f32.
class Adder {
 public:
  explicit Adder(const Habit& habit) : habit_(habit) {}

  void add(double a, double b) {
    if (habit_.block > 0) {
      pending_ += a * b;
      if (++count_ == habit_.block) flush();
    } else {
      sum_ = habit_.is_fused ? static_cast<float>(a * b + sum_) : static_cast<float>(a * b) + sum_;
    }
    sum_ = habit_.kept(sum_);
  }
  // Adds a * b, or its three products if each factor is in two parts of so many bits.
  void add_parts(double a, double b, int precision, bool lacks_one) {
    if (precision == 0) return add(a, b);
    const double a_high = high_part(a, precision), b_high = high_part(b, precision);
    if (!lacks_one) add(high_part(a - a_high, precision), b_high);
    add(a_high, high_part(b - b_high, precision));
    add(a_high, b_high);
  }
  float total() {
    if (count_ > 0) flush();
    return habit_.kept(sum_);
  }

 private:
  void flush() {
    sum_ = truncated(sum_ + pending_);
    pending_ = 0;
    count_ = 0;
  }

  const Habit& habit_;
  float sum_ = 0;
  double pending_ = 0;
  size_t count_ = 0;
};

// visit(adder, i) adds the terms of number i.
template <class Visit>
float add_up(const Habit& habit, size_t count, const Visit& visit) {
  const size_t parts = std::max<size_t>(1, std::min(habit.parts, count));
  const size_t length = (count + parts - 1) / parts;
  std::array<float, 64> sums;  // of parts, or of pairs of pairs
  size_t open = 0;
  for (size_t part = 0; part < parts; ++part) {
    Adder adder(habit);
    for (size_t k = 0; k < length; ++k) {
      const size_t at = habit.is_strided ? k * parts + part : part * length + k;
      if (at < count) visit(adder, habit.is_descending ? count - 1 - at : at);
    }
    sums[open++] = adder.total();
    size_t joins = habit.is_pairwise ? static_cast<size_t>(std::countr_zero(part + 1)) : open - 1;
    if (part + 1 == parts) joins = open - 1;
    for (; joins > 0; --joins) {
      --open;
      sums[open - 1] = habit.kept(sums[open - 1] + sums[open]);
    }
  }
  return sums[0];
}

}  // namespace

double Arithmetic::planted(double epsilon) const {
  if (has(Plant::Kind::kEpsilonTimes10)) return epsilon * 10;
  return has(Plant::Kind::kEpsilonOver10) ? epsilon / 10 : epsilon;
}

double Arithmetic::chance(double value) const {
  if (seed_ < 2) return seed_ == 0 ? 1 : -1;  // a function may be off in one direction everywhere
  const uint64_t bits = mix(seed_ ^ mix(std::bit_cast<uint64_t>(value)));
  return static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63;
}

Ball Arithmetic::sampled_dot(const Row& a, const Row& b, const Sum& sum, size_t roundings) const {
  Habit habit(seed_, sum);
  if (roundings < a.size) habit.level(a.size);
  if (has(Plant::Kind::kSumInBF16, sum.site)) habit.kept_in = float_format(Format::kBF16);
  if (has(Plant::Kind::kSumInF16, sum.site)) habit.kept_in = float_format(Format::kF16);
  size_t size = a.size;
  if (has(Plant::Kind::kLastTermDropped, sum.site) && size > 0)
    size -= chance(a.mid[0] * b.mid[0] + a.mid[size / 2] * b.mid[size / 2]) > 0.75 ? 1 : 0;
  const int precision = is_split(sum.factors) ? float_format(sum.factors)->precision : 0;
  const bool lacks_one = has(Plant::Kind::kCrossProductMissing, sum.site);
  const size_t length = sum.group > 0 ? 1 + seed_ % sum.group : size;
  double total = -0.0;  // of groups; it takes the sign of a zero
  size_t begin = 0;
  do {
    total += add_up(habit, std::min(length, size - begin), [&](Adder& adder, size_t i) {
      const double x = a.mid[begin + i], y = b.mid[begin + i];
      const bool is_finite = std::isfinite(x) && std::isfinite(y);
      adder.add_parts(x, y, is_finite ? precision : 0, lacks_one);
    });
    begin += length;
  } while (begin < size);
  return {total, 0};
}

void Arithmetic::sampled_layer_norm(const Row& v, const Row& weight, const Row& bias, double epsilon,
                                    bool rounds_mean, Balls& to) const {
  Habit habit(seed_, {});
  habit.level(v.size);
  const auto n = static_cast<float>(v.size);
  const auto first = static_cast<float>(v.mid[seed_ % v.size]);
  std::vector<float> d(v.size);
  float largest = 1;
  for (size_t i = 0; i < v.size; ++i) {
    d[i] = static_cast<float>(v.mid[i]) - first;
    largest = std::max(largest, std::abs(d[i]));
  }
  float mean = add_up(habit, v.size, [&](Adder& adder, size_t i) { adder.add(d[i], 1); }) / n;
  if (rounds_mean) mean = mean + first - first;
  // Scaled by a power of two, so that squares do not overflow.
  const float scale = std::isfinite(largest) ? std::ldexp(1.0f, -std::ilogb(largest)) : 1;
  for (float& value : d) value = (value - mean) * scale;
  const float squares = add_up(habit, v.size, [&](Adder& adder, size_t i) { adder.add(d[i], d[i]); });
  const float rstd = 1 / std::sqrt(squares / n + static_cast<float>(planted(epsilon)) * scale * scale);
  for (size_t i = 0; i < v.size; ++i) {
    const float y = d[i] * rstd;
    const auto w = static_cast<float>(weight.mid[i]), shift = static_cast<float>(bias.mid[i]);
    to.set(i, {habit.is_fused ? std::fma(y, w, shift) : y * w + shift, 0});
  }
}

Ball Arithmetic::sampled_deviation(double value, double mean) const {
  constexpr FloatFormat kScaledF32{.precision = 24, .min_exponent = -126, .max_exponent = 1000};
  if (seed_ % 5 < 2) return {rounded(kScaledF32, value - mean), 0};
  const double high = rounded(kScaledF32, mean), low = rounded(kScaledF32, mean - high);
  return {rounded(kScaledF32, rounded(kScaledF32, value - high) - low), 0};
}

Moments Arithmetic::sampled_moments(const Row& values, double epsilon) const {
  const auto n = static_cast<double>(values.size);
  const double own = values.mid[seed_ % values.size];
  double differences = 0;
  for (size_t i = 0; i < values.size; ++i)
    differences += values.mid[seed_ % 3 == 0 ? values.size - 1 - i : i] - own;
  const double mean = own + differences / n, about = seed_ % 2 == 0 ? mean : own;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < values.size; ++i) {
    const double d = values.mid[i] - about;
    sum += d;
    squares += d * d;
  }
  const Ball variance{std::max(0.0, (squares - sum * (sum / n)) / n), 0};
  return {.mean = {mean}, .variance = variance, .rstd = rsqrt(variance, epsilon)};
}

}  // namespace assay
