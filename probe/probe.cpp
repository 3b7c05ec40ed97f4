// SPDX-License-Identifier: Apache-2.0
#include "probe/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

#include "probe/contradictions.h"

namespace assay {
namespace {

// Factors in f16 are times a power of two that follows from the largest values that the inputs
// permit. A tensor between the steps keeps 2^-37 of that (kernels/trimul/trimul.h). For a sum of n
// terms of at most M it is 8 n M: with M = 2^26 and n = 32 a unit is eight times what is lost. A
// single unit is swamped by M in a fused group that keeps 25 bits.
constexpr int kScaledHuge = 26;
constexpr int64_t kScaledTerms = 32;

// [bits] of the coarsest format that a recipe rounds to.
int coarsest(const Recipe& recipe) {
  int bits = format_of(recipe.storage).precision;
  for (const Rounding& rounding : recipe.roundings) {
    if (rounding.format == Format::kBF16) bits = std::min(bits, 8);
    if (rounding.format == Format::kF16 || rounding.format == Format::kTF32) bits = std::min(bits, 11);
  }
  return bits;
}

double product(const Factors& factors, int64_t sum, int64_t term) {
  return std::abs(factors.a[factors.at(sum, term)] * factors.b[factors.at(sum, term)]);
}

// Sets Factors::is_small.
void mark_small(Factors& factors) {
  constexpr double kFar = 2;
  factors.is_small.assign(factors.b.size(), true);
  for (int64_t s = 0; s < factors.sums(); ++s) {
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
    for (int64_t k = 0; k < factors.terms; ++k) {
      const double size = product(factors, s, k);
      largest = std::max(largest, size);
      if (size > 0) smallest = std::min(smallest, size);
    }
    if (smallest * kFar > largest) continue;
    for (int64_t k = 0; k < factors.terms; ++k)
      factors.is_small[factors.at(s, k)] = product(factors, s, k) * kFar <= largest;
  }
}

Case case_of(const Subject& subject, DType dtype, const Dims& dims) {
  return {.op = std::string(subject.op->name),
          .path = std::string(subject.path->name),
          .dtype = dtype,
          .dims = dims};
}

// Runs the path on sums, in calls of as many as it computes at once.
Sums sums_of(const Subject& subject, const PathCalls& calls, const ProbedSum& sum, DType dtype,
             int64_t terms) {
  return [&subject, &calls, &sum, dtype, terms](const Factors& all) {
    std::vector<double> values;
    const int64_t most = sum.most_sums(terms);
    for (int64_t begin = 0; begin < all.sums(); begin += most) {
      const int64_t count = std::min(most, all.sums() - begin);
      Factors some(count, terms);
      some.asks_for_zero = all.asks_for_zero;
      const auto first = static_cast<std::ptrdiff_t>(all.at(begin, 0)),
                 size = static_cast<std::ptrdiff_t>(count * terms);
      std::copy_n(all.a.begin() + first, size, some.a.begin());
      std::copy_n(all.b.begin() + first, size, some.b.begin());
      if (!some.asks_for_zero) mark_small(some);
      const Case which = case_of(subject, dtype, sum.dims(terms, count));
      const Values inputs = build(subject.op->inputs, which.dims, [&](size_t tensor, const Extents& index) {
        return sum.encode(some, tensor, index);
      });
      const Values outputs =
          values_of(subject.op->outputs, which, calls.outputs(which, bytes_of(inputs, dtype)));
      for (int64_t s = 0; s < count; ++s) values.push_back(sum.decode(some, outputs, s));
    }
    return values;
  };
}

Reach reach_of(const Subject& subject, const PathCalls& calls, const ProbedSum& sum, DType dtype,
               int64_t terms, const Recipe& recipe) {
  const FloatFormat format = format_of(dtype);
  Reach reach{.terms = terms,
              .sums = sums_of(subject, calls, sum, dtype, terms),
              .first = sum.first,
              .is_exact = sum.is_exact,
              .has_subnormals = sum.shift >= 0,
              .factor_bits = format.precision,
              .huge = sum.huge,
              .units = int64_t{1} << format.precision,
              .lowest = format.min_exponent};
  // Scaled factors in two parts make sums that stay in f32.
  const Sum declared = recipe.sum(sum.site);
  reach.hides_bits =
      !sum.is_exact && (dtype != DType::kF32 || (declared.is_scaled && !is_split(declared.factors)));
  // Behind a norm, three bits are needed to tell a unit from none.
  if (!sum.is_exact) reach.units = int64_t{1} << (coarsest(recipe) - 3);
  if (dtype == DType::kF16) {
    reach.unit = -24;
    reach.huge = sum.first == FirstFactor::kFree ? 30 : 15;
  } else if (declared.is_scaled) {
    reach.huge = kScaledHuge;
    reach.units = 1;
  }
  return reach;
}

// The same sums in other places.
Sums permuted(Sums sums, uint64_t seed) {
  return [sums = std::move(sums), seed](const Factors& all) {
    const CounterRandom random(seed, 3);
    std::vector<int64_t> order(static_cast<size_t>(all.sums()));
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.bits(i) % i]);
    Factors moved = all;
    for (int64_t s = 0; s < all.sums(); ++s) {
      const int64_t from = order[static_cast<size_t>(s)];
      for (int64_t k = 0; k < all.terms; ++k) {
        moved.a[moved.at(s, k)] = all.a[all.at(from, k)];
        moved.b[moved.at(s, k)] = all.b[all.at(from, k)];
      }
    }
    const std::vector<double> got = sums(moved);
    std::vector<double> values(got.size());
    for (size_t s = 0; s < got.size(); ++s) values[static_cast<size_t>(order[s])] = got[s];
    return values;
  };
}

// The same random terms in all places of a call have to give the same value. What differs shows
// that places add up in different orders.
std::optional<std::string> differing_places(const Reach& reach, int64_t places, uint64_t seed) {
  constexpr uint64_t kDraws = 16;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    Factors factors(places, reach.terms);
    const CounterRandom random(seed + draw, 5);
    for (size_t at = 0; at < factors.b.size(); ++at) {
      const uint64_t term = at % static_cast<size_t>(reach.terms);
      const double whole = std::ldexp(1 + random.uniform(term), reach.factor_bits - 1);
      factors.b[at] =
          std::ldexp(std::trunc(whole), 1 - reach.factor_bits) * (random.bits(term, 1) % 2 == 0 ? 1 : -1);
    }
    const std::vector<double> values = reach.sums(factors);
    for (size_t s = 1; s < values.size(); ++s) {
      if (values[s] == values[0] || (std::isnan(values[s]) && std::isnan(values[0]))) continue;
      return fmt::format("the same terms give {} in place 0 and {} in place {} of {}", values[0], values[s],
                         s, places);
    }
  }
  return std::nullopt;
}

// Draws factors that are kept as they are, in one part.
Reach with_plain_factors(Reach reach, const Accumulator& found, const Sum& declared) {
  if (found.factors) reach.factor_bits = std::min(reach.factor_bits, found.factors->bits);
  if (declared.factors == Format::kBF16x3) reach.factor_bits = std::min(reach.factor_bits, 8);
  if (declared.factors == Format::kF16x3) reach.factor_bits = std::min(reach.factor_bits, 11);
  return reach;
}

bool is_known(const Accumulator& found) {
  return found.bits && found.mode && found.knows_fused;
}

SumBounds bounds_of(const SumTree& tree, const Accumulator& found, const Sum& declared) {
  if (!is_known(found)) return {.why_not = "what the sum adds with is not known"};
  if (is_split(declared.factors) || (found.factors && found.factors->lacks_low_product))
    return {.why_not = "factors in two parts make several products of each term"};
  if (widest_node(tree) > 2 && !found.fraction) return {.why_not = "how a group is cut is not known"};
  const Adder adder = found.adder();
  return {.of_tree = bound_of_tree(tree, adder),
          .of_any_order = bound_of_tree(sequential({leaf_count(tree)}), adder)};
}

std::vector<std::string> contradictions_of_contract(const Probed& found) {
  std::vector<std::string> all;
  const std::optional<int>& bits = found.accumulator.bits;
  if (bits && *bits < found.sum->contract_bits)
    all.push_back(
        fmt::format("the sum is kept in {} bits; the contract promises {}", *bits, found.sum->contract_bits));
  const bool is_wider = !bits || *bits > found.sum->contract_bits;  // then it may add more often
  if (!found.tree || !found.sum->contract_depth || is_wider) return all;
  const int64_t depth = depth_of(*found.tree), most = found.sum->contract_depth(found.terms);
  if (depth > most)
    all.push_back(
        fmt::format("a term goes through {} additions; the contract promises {} at most", depth, most));
  return all;
}

// Returns the tree in other places of a call, if it differs.
std::optional<SumTree> find_tree(Probed& found, const Reach& reach, uint64_t seed) {
  const Recovered first = recover_tree(reach.terms, common_leaves_by_masks(reach), seed);
  found.pairs = first.pairs;
  found.tree = first.tree;
  if (!first.tree) found.why_not = "no tree explains the sum: " + first.why_not;
  Reach other = reach;
  other.sums = permuted(reach.sums, seed);
  const Recovered second = recover_tree(reach.terms, common_leaves_by_masks(other), seed + 1);
  if (!first.tree || second.tree == first.tree) return std::nullopt;
  found.differing.push_back("sums in other places of a call add up in another tree");
  return second.tree;
}

}  // namespace

Probed probe(const Subject& subject, const PathCalls& calls, const ProbedSum& sum, DType dtype,
             const ProbeOptions& options) {
  constexpr int kOfF64 = 60;  // a power of two that swamps f64
  const auto start = std::chrono::steady_clock::now();
  Probed found{.sum = &sum, .dtype = dtype, .why_not = std::string(sum.why_not)};
  if (dtype == DType::kF16 && sum.huge > kOfF64)
    found.why_not = "nothing in the range of f16 swamps a sum in f64";
  if (dtype == DType::kF16 && sum.shift < 0)
    found.why_not =
        fmt::format("the output is about 2^{} times the sum, which f16 has no room for", sum.shift);
  if (!found.why_not.empty()) return found;
  found.terms = std::clamp<int64_t>(options.terms.value_or(sum.usual_terms), 2, sum.most_terms);
  try {
    const Recipe recipe = calls.recipe(case_of(subject, dtype, sum.dims(found.terms, 1)));
    if (sum.why_not_with) found.why_not = sum.why_not_with(recipe);
    if (!found.why_not.empty()) return found;
    const Sum declared = recipe.sum(sum.site);
    if (!sum.is_exact && declared.is_scaled) found.terms = std::min(found.terms, kScaledTerms);
    found.dims = sum.dims(found.terms, sum.most_sums(found.terms));
    found.declared = sum.contract.empty() ? declared.to_string() : std::string(sum.contract);
    found.is_scaled = sum.is_scaled && sum.is_scaled(recipe);
    if (sum.is_polynomial)
      found.identity =
          test_identity(subject, calls, dtype, sum.dims(found.terms, 64), found.terms, options.seed);
    const Reach reach = reach_of(subject, calls, sum, dtype, found.terms, recipe);
    if (auto differing =
            differing_places(reach, std::min<int64_t>(sum.most_sums(found.terms), 64), options.seed))
      found.differing.push_back(*differing);
    const std::optional<SumTree> elsewhere = find_tree(found, reach, options.seed);
    if (found.tree && !found.is_scaled) {
      found.accumulator = find_accumulator(reach, *found.tree);
      if (!is_known(found.accumulator)) found.proof.why_not = "what the sum adds with is not known";
      if (is_known(found.accumulator))
        found.proof = replay(with_plain_factors(reach, found.accumulator, declared), *found.tree,
                             found.accumulator.adder(), dtype, options.draws, options.seed);
    }
    if (found.tree) found.bounds = bounds_of(*found.tree, found.accumulator, declared);
    if (!sum.contract.empty()) {
      found.contradictions = contradictions_of_contract(found);
    } else {
      if (found.tree)
        found.contradictions = contradictions(declared, *found.tree, found.accumulator, reach.factor_bits);
      if (elsewhere && found.contradictions.empty())
        found.contradictions = contradictions(declared, *elsewhere, found.accumulator, reach.factor_bits);
      for (std::string& what : contradictions_of_groups(declared, reach))
        found.contradictions.push_back(std::move(what));
    }
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUnsupported) throw;
    found.why_not = error.what();
  }
  found.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return found;
}

bool is_consistent(const Probed& probed) {
  return probed.contradictions.empty() && !(probed.identity && probed.identity->difference);
}

}  // namespace assay
