// SPDX-License-Identifier: Apache-2.0
#include "probe/simulate.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/core/error.h"

namespace assay {
namespace {

constexpr int kDouble = 53;         // [bits]
constexpr int kMinExponent = -126;  // of f32

double to_integer(double value, RoundingMode mode) {
  switch (mode) {
    case RoundingMode::kNearestEven:
      return std::nearbyint(value);
    case RoundingMode::kTowardZero:
      return std::trunc(value);
    case RoundingMode::kNearestAway:
      return std::round(value);
    case RoundingMode::kUp:
      return std::ceil(value);
    case RoundingMode::kDown:
      return std::floor(value);
  }
  throw Error("RoundingMode({}) is not a mode", static_cast<int>(mode));
}

// a + b, rounded to odd: what is rounded again to fewer bits then is rounded once.
double add_to_odd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double of_b = sum - a, error = (a - (sum - of_b)) + (b - of_b);
  if (error == 0 || std::bit_cast<uint64_t>(sum) % 2 == 1) return sum;
  return std::nextafter(
      sum, error > 0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}

double add(double a, double b, const Adder& adder) {
  return adder.bits == kDouble ? a + b : rounded(add_to_odd(a, b), adder);
}

struct Part {
  double value;
  int exponent;
};

double add_group(std::span<const Part> parts, const Adder& adder) {
  int largest = std::numeric_limits<int>::min();
  for (const Part& part : parts) {
    if (!std::isfinite(part.value)) return part.value;
    if (part.value != 0) largest = std::max(largest, part.exponent);
  }
  if (largest == std::numeric_limits<int>::min()) return 0;
  const int place = *adder.fraction - largest;
  double sum = 0;  // exact: at most 42 bits each, and not more than 2^11 of them
  for (const Part& part : parts) sum += std::trunc(std::ldexp(part.value, place));
  Adder cut = adder;
  cut.mode = RoundingMode::kTowardZero;
  return rounded(std::ldexp(sum, -place), cut);
}

class Simulation {
 public:
  Simulation(std::span<const double> a, std::span<const double> b, const Adder& adder)
      : a_(a), b_(b), adder_(adder) {}

  double operator()(const SumTree& tree) const {
    if (tree.is_leaf()) return product(tree.leaf, false);
    if (adder_.fraction && std::ranges::any_of(tree.parts, &SumTree::is_leaf)) return group(tree);
    const bool exact = tree.parts.size() == 2;
    double sum = part(tree.parts[0], exact);
    for (size_t i = 1; i < tree.parts.size(); ++i) sum = add(sum, part(tree.parts[i], exact), adder_);
    return sum;
  }

 private:
  double product(int64_t term, bool in_addition) const {
    const auto k = static_cast<size_t>(term);
    const double exact = a_[k] * b_[k];
    const bool is_fused = in_addition && k < adder_.is_fused.size() && adder_.is_fused[k];
    return is_fused ? exact : rounded(exact, adder_);
  }
  double part(const SumTree& tree, bool in_addition) const {
    return tree.is_leaf() ? product(tree.leaf, in_addition) : (*this)(tree);
  }
  double group(const SumTree& tree) const {
    std::vector<Part> parts;
    for (const SumTree& one : tree.parts) {
      const bool is_product = one.is_leaf();
      const auto k = static_cast<size_t>(one.leaf);
      const double value = is_product ? a_[k] * b_[k] : (*this)(one);
      const int exponent = value == 0   ? 0
                           : is_product ? std::ilogb(a_[k]) + std::ilogb(b_[k])
                                        : std::ilogb(value);
      parts.push_back({value, exponent});
    }
    return add_group(parts, adder_);
  }

  std::span<const double> a_, b_;
  const Adder& adder_;
};

}  // namespace

std::string_view name_of(RoundingMode mode) {
  switch (mode) {
    case RoundingMode::kNearestEven:
      return "to nearest, ties to even";
    case RoundingMode::kTowardZero:
      return "towards zero";
    case RoundingMode::kNearestAway:
      return "to nearest, ties away from zero";
    case RoundingMode::kUp:
      return "up";
    case RoundingMode::kDown:
      return "down";
  }
  throw Error("RoundingMode({}) is not a mode", static_cast<int>(mode));
}

double rounded(double value, const Adder& adder) {
  if (adder.bits >= kDouble || value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), kMinExponent);
  const int quantum = exponent - adder.bits + 1;
  const double result = std::ldexp(to_integer(std::ldexp(value, -quantum), adder.mode), quantum);
  if (!adder.keeps_subnormals && std::abs(result) < std::ldexp(1.0, kMinExponent))
    return std::copysign(0.0, value);
  return static_cast<double>(static_cast<float>(result));
}

double simulate(const SumTree& tree, std::span<const double> a, std::span<const double> b,
                const Adder& adder) {
  return Simulation(a, b, adder)(tree);
}

}  // namespace assay
