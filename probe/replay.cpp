// SPDX-License-Identifier: Apache-2.0
#include "probe/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "properties/core/random.h"

namespace assay {
namespace {

double stored(double value, DType dtype) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

// +-[0.5, 2) times 2^-3 .. 2^3, of so many bits.
double any_factor(const CounterRandom& random, uint64_t counter, int bits) {
  const double fraction = 0.5 + 0.5 * random.uniform(counter);
  const double whole = std::trunc(std::ldexp(fraction, bits));
  const int exponent = static_cast<int>(random.bits(counter, 1) % 8) - 3 - bits;
  return std::ldexp(random.bits(counter, 2) % 2 == 0 ? whole : -whole, exponent);
}

Factors any_factors(const Reach& reach, int64_t draws, uint64_t seed) {
  Factors factors(draws, reach.terms);
  const CounterRandom random(seed, 1);
  for (size_t at = 0; at < factors.b.size(); ++at) {
    factors.b[at] = any_factor(random, 2 * at, reach.factor_bits);
    if (reach.first == FirstFactor::kFree) factors.a[at] = any_factor(random, 2 * at + 1, reach.factor_bits);
  }
  return factors;
}

// Sets the terms `last` to what the others add up to, with the opposite sign, in parts of as many
// bits as a factor keeps. Returns whether there are enough of them.
bool take_back(Factors& factors, const std::vector<int64_t>& last, int bits, const SumTree& tree,
               const Adder& adder) {
  if (static_cast<int>(last.size()) * bits < adder.bits) return false;
  for (int64_t s = 0; s < factors.sums(); ++s) {
    for (int64_t term : last) {
      factors.a[factors.at(s, term)] = 1;
      factors.b[factors.at(s, term)] = 0;
    }
  }
  std::vector<double> rest = simulated(factors, tree, adder);
  for (size_t s = 0; s < rest.size(); ++s) {
    for (int64_t term : last) {
      if (rest[s] == 0) break;
      const int quantum = std::ilogb(rest[s]) - bits + 1;
      const double part = std::ldexp(std::trunc(std::ldexp(rest[s], -quantum)), quantum);
      factors.b[factors.at(static_cast<int64_t>(s), term)] = -part;
      rest[s] -= part;
    }
  }
  return true;
}

}  // namespace

std::vector<double> simulated(const Factors& factors, const SumTree& tree, const Adder& adder) {
  std::vector<double> values;
  const auto terms = static_cast<size_t>(factors.terms);
  for (size_t s = 0; s < static_cast<size_t>(factors.sums()); ++s) {
    values.push_back(simulate(tree, std::span(factors.a).subspan(s * terms, terms),
                              std::span(factors.b).subspan(s * terms, terms), adder));
  }
  return values;
}

double largest_error(const Factors& factors, const std::vector<double>& values) {
  long double largest = 0;
  for (int64_t s = 0; s < factors.sums(); ++s) {
    long double sum = 0, sizes = 0;
    for (int64_t k = 0; k < factors.terms; ++k) {
      const long double term =
          static_cast<long double>(factors.a[factors.at(s, k)]) * factors.b[factors.at(s, k)];
      sum += term;
      sizes += std::abs(term);
    }
    if (sizes > 0) largest = std::max(largest, std::abs(values[static_cast<size_t>(s)] - sum) / sizes);
  }
  return static_cast<double>(largest);
}

Replay replay(const Reach& reach, const SumTree& tree, const Adder& adder, DType storage, int64_t draws,
              uint64_t seed) {
  Replay result;
  Factors factors = any_factors(reach, draws, seed);
  std::vector<double> want;
  if (reach.is_exact && storage != DType::kF32) {
    result.why_not = "rounded to 16 bits, sums in most orders are equal";
    return result;
  }
  if (reach.is_exact) {
    for (double value : simulated(factors, tree, adder)) want.push_back(stored(value, storage));
  } else if (reach.hides_bits) {
    result.why_not = "what lies behind the sum keeps too few bits";
    return result;
  } else {
    std::vector<int64_t> last;
    for (const SumTree& part : tree.parts) {
      if (part.is_leaf()) last.push_back(part.leaf);
    }
    const int64_t all = reach.terms;
    if (static_cast<int64_t>(last.size()) == all ||
        !take_back(factors, last, reach.factor_bits, tree, adder)) {
      result.why_not = "the bits of the sum are hidden, and too few terms are added last to take it back";
      return result;
    }
    factors.asks_for_zero = true;
    want.assign(static_cast<size_t>(draws), 0.0);
  }
  const std::vector<double> got = reach.sums(factors);
  result.draws = draws;
  result.largest_error = largest_error(factors, simulated(factors, tree, adder));
  for (size_t s = 0; s < want.size(); ++s) {
    if (got[s] == want[s]) {
      ++result.reproduced;
    } else if (result.first.empty()) {
      result.first = fmt::format("draw {} is {:a}, replayed {:a}", s, got[s], want[s]);
    }
  }
  return result;
}

}  // namespace assay
