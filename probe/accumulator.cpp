// SPDX-License-Identifier: Apache-2.0
#include "probe/accumulator.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kMostFraction = 40;  // [bits] that Adder knows

int64_t depth_below(const SumTree& tree) {
  return depth_of(tree);
}

// The terms that are direct parts of the node with the most of them.
void find_widest(const SumTree& tree, std::vector<int64_t>& widest) {
  std::vector<int64_t> own;
  for (const SumTree& part : tree.parts) {
    if (part.is_leaf()) own.push_back(part.leaf);
    find_widest(part, widest);
  }
  if (own.size() > widest.size()) widest = own;
}

// A term of another part of the node that a term is a part of.
void find_partners(const SumTree& tree, std::vector<int64_t>& partners) {
  for (size_t i = 0; i < tree.parts.size(); ++i) {
    if (!tree.parts[i].is_leaf()) {
      find_partners(tree.parts[i], partners);
      continue;
    }
    partners[static_cast<size_t>(tree.parts[i].leaf)] = leaves_of(tree.parts[i == 0 ? 1 : 0]).front();
  }
}

// The largest t up to `most` for which the answers are 1 for all up to it, or -1.
int last_one(const std::vector<double>& answers) {
  int last = -1;
  while (last + 1 < static_cast<int>(answers.size()) && answers[static_cast<size_t>(last + 1)] == 1) ++last;
  return last;
}

class Finder {
 public:
  Finder(const Reach& reach, const SumTree& tree)
      : reach_(reach),
        tree_(tree),
        nested_(nested_terms(tree)),
        scale_(std::max(reach.unit, reach.lowest + 2)),
        most_(std::min(60, reach.huge - scale_)) {}

  Accumulator find() {
    if (nested_.size() > 2) find_width();
    if (found_.bits) find_mode();
    find_fraction();
    find_factors();
    if (reach_.is_exact && reach_.has_subnormals) {
      find_subnormals();
    } else {
      unclear("subnormals: the sum is seen {}", reach_.is_exact ? "times a small number" : "inexactly");
    }
    if (widest_node(tree_) == 2) find_fused();
    return found_;
  }

 private:
  template <class... Args>
  void unclear(fmt::format_string<Args...> format, Args&&... args) {
    found_.unclear.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // For each t: 2^t at the first place, 1 at the second, -2^t at the third. Rounded, since values
  // behind a norm are inexact.
  std::vector<double> remainders(int64_t first, int64_t second, int64_t third) const {
    std::vector<std::vector<PlacedValue>> sums;
    for (int t = 0; t <= most_; ++t) {
      const double power = std::ldexp(1.0, t);
      sums.push_back({{first, power}, {second, 1}, {third, -power}});
    }
    return near(ask(reach_, sums, scale_));
  }

  // Answers are multiples of a quarter.
  std::vector<double> near(std::vector<double> values) const {
    for (double& value : values) value = std::nearbyint(value * 4) / 4;
    return values;
  }

  void find_width() {
    std::vector<int> widths;
    for (size_t level : {size_t{1}, nested_.size() / 2, nested_.size() - 2}) {
      if (level == 0 || level + 1 >= nested_.size()) continue;
      widths.push_back(last_one(remainders(nested_[0], nested_[level], nested_.back())) + 1);
    }
    const auto [least, most] = std::ranges::minmax(widths);
    if (least > most_) {
      unclear("width: more than {} bits", most_ + 1);
    } else if (least < 2) {
      unclear("width: 2 + 1 - 2 is not 1");
    } else {
      found_.bits = least;
      if (most > least)
        unclear("width: {} bits from the first addition to the last", fmt::join(widths, ", "));
    }
  }

  void find_mode() {
    const double base = std::ldexp(1.0, *found_.bits - 1);
    const int64_t i = nested_[0], j = nested_[1], last = nested_.back();
    std::vector<std::vector<PlacedValue>> sums = {{{i, base}, {j, 0.75}, {last, -base}},
                                                  {{i, -base}, {j, -0.75}, {last, base}},
                                                  {{i, base}, {j, 0.5}, {last, -base}}};
    // 2^t + 1 in one term if there is no fourth one, and a factor has so many bits.
    if (nested_.size() > 3) {
      sums.push_back({{i, base}, {j, 1}, {nested_[2], 0.5}, {last, -base}});
    } else if (*found_.bits <= reach_.factor_bits) {
      sums.push_back({{i, base + 1}, {j, 0.5}, {last, -base}});
    }
    const std::vector<double> got = near(ask(reach_, sums, scale_));
    const double above = got[0], below = got[1], tie = got[2], odd_tie = got.size() > 3 ? got[3] : kNan;
    if (above == 1 && below == -1 && tie == 0 && odd_tie == 2) found_.mode = RoundingMode::kNearestEven;
    if (above == 1 && below == -1 && tie == 1) found_.mode = RoundingMode::kNearestAway;
    if (above == 0 && below == 0) found_.mode = RoundingMode::kTowardZero;
    if (above == 1 && below == 0) found_.mode = RoundingMode::kUp;
    if (above == 0 && below == -1) found_.mode = RoundingMode::kDown;
    if (above == 1 && below == -1 && tie == 0 && std::isnan(odd_tie)) {
      unclear("rounding: to nearest; three terms of {} bits do not tell ties", reach_.factor_bits);
    } else if (!found_.mode) {
      unclear("rounding: 3/4, -3/4 and 1/2 of the last bit become {}, {} and {}", above, below, tie);
    }
  }

  void find_fraction() {
    std::vector<int64_t> terms;
    find_widest(tree_, terms);
    if (terms.size() < 3) return;
    const int last = last_one(remainders(terms[0], terms[1], terms[2]));
    if (last < 0) {
      unclear("fused groups: 1 + 1 - 1 is not 1");
    } else if (last > kMostFraction || last == most_) {
      unclear("fused groups: exact to {} bits at least", last);
    } else {
      found_.fraction = last;
    }
  }

  // What remains of 1 + 2^-h + tail, less 1 and 2^-h, over the tail. A further term, equal to the
  // tail, keeps it in sight behind a norm, if there is one. In any order all additions are exact.
  struct Tail {
    int h;
    double tail;
  };
  std::vector<double> remaining(const std::vector<Tail>& tails) const {
    const bool has_fourth = reach_.terms > 3;
    std::vector<std::vector<PlacedValue>> sums;
    for (const auto& [h, tail] : tails) {
      const double high = std::ldexp(1.0, -h);
      sums.push_back({{0, 1 + high + tail}, {1, -1}, {2, -high}});
      if (has_fourth) sums.back().push_back({3, tail});
    }
    std::vector<double> values = ask(reach_, sums);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::nearbyint(values[i] / tails[i].tail * 4) / 4 - (has_fourth ? 1 : 0);
    return values;
  }

  // A factor in two parts keeps any single bit in its low one. So each bit is asked for beside each
  // higher one.
  void find_factors() {
    if (reach_.terms < 3) return unclear("factors: three terms tell them");
    std::vector<Tail> tails;
    for (int q = 2; q < reach_.factor_bits; ++q) {
      for (int h = 1; h < q; ++h) tails.push_back({h, std::ldexp(1.0, -q)});
    }
    const std::vector<double> kept = remaining(tails);
    FactorUse use{.bits = 2};
    for (size_t at = 0; use.bits < reach_.factor_bits; at += static_cast<size_t>(use.bits++) - 1) {
      const auto first = kept.begin() + static_cast<std::ptrdiff_t>(at);
      if (std::any_of(first, first + use.bits - 1, [](double value) { return value != 1; })) break;
    }
    if (use.bits == 2) return unclear("factors: 1.75 - 1.5 is {}", kept[0] / 4);
    if (use.bits + 2 <= reach_.factor_bits) {
      const double last = std::ldexp(1.0, 1 - use.bits);
      const std::vector<double> got = remaining({{1, 0.75 * last}, {1, 0.5 * last}});
      use.mode = got[0] == 0   ? RoundingMode::kTowardZero
                 : got[1] == 0 ? RoundingMode::kNearestEven
                               : RoundingMode::kNearestAway;
    }
    if (use.bits > 12 && use.bits < 24 && reach_.first == FirstFactor::kFree && nested_.size() > 2)
      use.lacks_low_product = lacks_low_product(use.bits);
    found_.factors = use;
  }

  // Whether (1 + d)^2 lacks d^2, where d lies in the low part of a factor: in two parts of bf16 or
  // of tf32.
  bool lacks_low_product(int bits) const {
    constexpr int kOfBF16 = 17;  // [bits] that two parts keep at most
    const double d = bits <= kOfBF16 ? 0x1p-9 : 0x1p-12;
    return squares(d, {{nested_[0], nested_[1]}})[0] == 0;
  }

  // For each term and its partner: a^2 - a - d in units of d^2, a = 1 + d. Where the last term of
  // the tree is neither of them, it is a d, which keeps the rest in sight behind a norm.
  std::vector<double> squares(double d, const std::vector<Pair>& pairs) const {
    const double a = 1 + d;
    Factors factors(static_cast<int64_t>(pairs.size()), reach_.terms);
    std::ranges::fill(factors.a, a);
    std::vector<double> expected;
    for (size_t s = 0; s < pairs.size(); ++s) {
      const auto sum = static_cast<int64_t>(s);
      const int64_t last = nested_.back();
      const bool has_last = last != pairs[s].first && last != pairs[s].second;
      if (has_last) factors.b[factors.at(sum, last)] = d;
      factors.b[factors.at(sum, pairs[s].first)] = a;
      factors.b[factors.at(sum, pairs[s].second)] = -1;
      expected.push_back(has_last ? d + a * d : d);
    }
    std::vector<double> values = reach_.sums(factors);
    for (size_t s = 0; s < values.size(); ++s)
      values[s] = std::nearbyint((values[s] - expected[s]) / (d * d) * 2) / 2;
    return values;
  }

  void find_subnormals() {
    // Both are normal as factors, unless there is one only.
    if (reach_.first == FirstFactor::kFree) {
      Factors factors(1, reach_.terms);
      const int e = reach_.lowest - 4;
      factors.a[factors.at(0, nested_[0])] = std::ldexp(1.0, e / 2);
      factors.b[factors.at(0, nested_[0])] = std::ldexp(1.0, e - e / 2);
      found_.keeps_subnormals = reach_.sums(factors)[0] == std::ldexp(1.0, e);
    }
    if (!found_.factors) return;
    Factors factors(1, reach_.terms);
    factors.b[factors.at(0, nested_[0])] = std::ldexp(1.0, reach_.lowest - 4);
    if (reach_.first == FirstFactor::kFree) {
      factors.a[factors.at(0, nested_[0])] = 16;
      found_.factors->keeps_subnormals = reach_.sums(factors)[0] != 0;
    }
  }

  void find_fused() {
    if (reach_.first == FirstFactor::kOne || reach_.factor_bits < 24) return;
    if (found_.factors && found_.factors->bits < 24) return;
    std::vector<int64_t> partners(static_cast<size_t>(reach_.terms));
    find_partners(tree_, partners);
    std::vector<Pair> pairs;
    for (int64_t k = 0; k < reach_.terms; ++k) pairs.emplace_back(k, partners[static_cast<size_t>(k)]);
    for (double value : squares(0x1p-12, pairs)) {
      if (value != 0 && value != 1) {
        unclear("fused products: (1 + d)^2 - (1 + d) - d is {} d^2, d = 2^-12", value);
        found_.is_fused.clear();
        found_.knows_fused = false;
        return;
      }
      found_.is_fused.push_back(value == 1);
    }
  }

  const Reach& reach_;
  const SumTree& tree_;
  std::vector<int64_t> nested_;
  int scale_;  // 2^scale is a 1: a quarter of it is no subnormal output
  int most_;   // the largest t
  Accumulator found_;
};

}  // namespace

Adder Accumulator::adder() const {
  Adder adder;
  if (bits) adder.bits = *bits;
  if (mode) adder.mode = *mode;
  adder.fraction = fraction;
  adder.keeps_subnormals = keeps_subnormals.value_or(true);
  adder.is_fused = is_fused;
  return adder;
}

std::vector<int64_t> nested_terms(const SumTree& tree) {
  std::vector<int64_t> outer;  // from the root to the leaf
  const SumTree* at = &tree;
  while (!at->is_leaf()) {
    const auto deepest = std::ranges::max_element(at->parts, {}, depth_below);
    outer.push_back(leaves_of(at->parts[deepest == at->parts.begin() ? 1 : 0]).front());
    at = &*deepest;
  }
  outer.push_back(at->leaf);
  std::ranges::reverse(outer);
  return outer;
}

Accumulator find_accumulator(const Reach& reach, const SumTree& tree) {
  return Finder(reach, tree).find();
}

}  // namespace assay
