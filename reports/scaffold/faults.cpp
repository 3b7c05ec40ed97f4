// SPDX-License-Identifier: Apache-2.0
#include "reports/scaffold/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace assay {
namespace {

bool is_scaled_inexactly(const Term& term) {
  int exponent = 0;
  return term.number && std::frexp(*term.number, &exponent) != 0.5f;
}

// Whether the products of the term are rounded: two stored numbers, or one and no power of two.
bool has_inexact_products(const Term& term) {
  return term.factors.size() == 2 || (!term.factors.empty() && is_scaled_inexactly(term));
}

bool is_factor(const Term& term, const std::string& tensor) {
  return std::ranges::any_of(term.factors, [&](const Tensor& factor) { return factor.name == tensor; });
}

// "a_b_dropped" and "a * b is left out"
PlantedFault dropped(const Term& term) {
  if (term.factors.empty()) return {"number_dropped", fmt::format("{} is left out", to_string(term))};
  std::vector<std::string> names;
  for (const Tensor& tensor : term.factors) names.push_back(tensor.name);
  return {joined(names, "_") + "_dropped", joined(names, " * ") + " is left out"};
}

// Faults of one name get numbers: "a * b" and "a_b" are both "a_b_dropped".
void tell_apart(Faults& faults) {
  std::set<std::string> taken;
  const auto rename = [&](PlantedFault& fault) {
    const std::string name = fault.name;
    for (int i = 2; !taken.insert(fault.enumerator()).second; ++i) fault.name = fmt::format("{}_{}", name, i);
  };
  std::ranges::for_each(faults.dropped, rename);
  std::ranges::for_each(faults.last_left_out, rename);
  if (faults.swapped) rename(*faults.swapped);
}

}  // namespace

std::string PlantedFault::enumerator() const {
  return "k" + camel_case(name);
}

std::vector<PlantedFault> Faults::all() const {
  std::vector<PlantedFault> faults = dropped;
  faults.insert(faults.end(), last_left_out.begin(), last_left_out.end());
  if (swapped) faults.push_back(*swapped);
  return faults;
}

std::vector<PlantedFault> Faults::counterfeits() const {
  std::vector<PlantedFault> faults;
  for (size_t i = 0; i < dropped.size(); ++i) {
    if (is_large[i]) faults.push_back(dropped[i]);
  }
  if (swapped) faults.push_back(*swapped);
  return faults;
}

Faults faults_of(const Formula& formula) {
  Faults faults;
  for (const Tensor& tensor : formula.inputs()) {
    const std::vector<std::string>& indices = tensor.indices;
    if (faults.swapped || indices.size() < 2 || indices.back() == indices[indices.size() - 2]) continue;
    std::vector<std::string> exchanged = indices;
    std::swap(exchanged.back(), exchanged[exchanged.size() - 2]);
    faults.swapped = {tensor.name + "_transposed",
                      fmt::format("{} is read at [{}] instead of [{}]", tensor.name, joined(exchanged, ","),
                                  joined(indices, ","))};
    faults.swapped_tensor = tensor;
  }
  for (const std::string& index : formula.indices()) {
    if (std::ranges::count(formula.output.indices, index) == 0)
      faults.last_left_out.push_back(
          {fmt::format("last_{}_dropped", index), fmt::format("the last {} is left out", index)});
  }
  // A right result that is zero everywhere is a poor fault, but better than none.
  if (formula.terms.size() == 1 && faults.swapped) return faults;
  for (const Term& term : formula.terms) {
    const auto is_larger = [&](const Term& other) {
      return other.summed.size() > term.summed.size() || other.factors.size() > term.factors.size();
    };
    faults.is_large.push_back(std::ranges::none_of(formula.terms, is_larger));
    faults.dropped.push_back(dropped(term));
  }
  tell_apart(faults);
  return faults;
}

bool is_copy(const Formula& formula) {
  const Term& first = formula.terms.front();
  return formula.terms.size() == 1 && first.factors.size() == 1 && !first.number && first.summed.empty();
}

std::vector<std::string> hidden_faults(const Formula& formula) {
  const std::vector<Term>& terms = formula.terms;
  const auto all_have = [&](const auto& property) { return std::ranges::all_of(terms, property); };
  const auto some_have = [&](const auto& property) { return std::ranges::any_of(terms, property); };
  const bool are_products_inexact = some_have(has_inexact_products);
  const bool has_sum = some_have([](const Term& term) { return !term.summed.empty(); });
  const bool are_products_used_on = has_sum || terms.size() > 1 || some_have([](const Term& term) {
                                      return term.factors.size() == 2 && is_scaled_inexactly(term);
                                    });
  const bool are_sums_rounded_on_the_way =
      has_sum || terms.size() > 2 || (terms.size() == 2 && has_inexact_products(terms.front()));
  const bool has_two_factors_everywhere = all_have([](const Term& term) { return term.factors.size() == 2; });
  const bool has_common_factor = std::ranges::any_of(formula.inputs(), [&](const Tensor& tensor) {
    return all_have([&](const Term& term) { return is_factor(term, tensor.name); });
  });

  std::vector<std::string> hidden;
  const auto hide_unless = [&](bool shows, const char* fault) {
    if (!shows) hidden.push_back(fault);
  };
  hide_unless(are_products_inexact && are_products_used_on, "kProductsRounded");
  hide_unless(are_sums_rounded_on_the_way, "kSumsRounded");
  hide_unless(are_products_inexact || has_sum || terms.size() > 1, "kOutputTruncated");
  hide_unless(has_common_factor, "kSubnormalsFlushed");
  hide_unless(has_common_factor || has_two_factors_everywhere, "kSubnormalResultsFlushed");
  return hidden;
}

}  // namespace assay
