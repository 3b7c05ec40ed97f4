// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/recipe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "kernels/core/error.h"

namespace assay {

std::string_view name_of(Format format) {
  switch (format) {
    case Format::kStored:
      return "stored";
    case Format::kF16:
      return "f16";
    case Format::kBF16:
      return "bf16";
    case Format::kBF16x3:
      return "bf16x3";
    case Format::kTF32:
      return "tf32";
    case Format::kF16x3:
      return "f16x3";
  }
  throw Error("Format({}) is not a format", static_cast<int>(format));
}

Format format_for(DType dtype) {
  switch (dtype) {
    case DType::kF32:
    case DType::kF64:
      return Format::kStored;
    case DType::kF16:
      return Format::kF16;
    case DType::kBF16:
      return Format::kBF16;
  }
  throw Error("DType({}) has no format", static_cast<int>(dtype));
}

std::string Rounding::to_string() const {
  if (format == Format::kStored) return "not rounded";
  std::string text(name_of(format));
  if (is_scaled) text += ", scaled";
  if (mode == Mode::kNearest) text += ", ties either way";
  if (mode == Mode::kTowardZero) text += ", toward zero";
  if (is_optional) text += ", or not rounded";
  return text;
}

std::string Sum::to_string() const {
  std::string text = group == 0 ? "sum in f32" : fmt::format("sum in f64 of groups of {} in f32", group);
  if (truncates) text += ", truncated";
  if (order == Order::kContiguous) text += ", of neighbours";
  if (factors != Format::kStored) text += fmt::format(", factors in {}", name_of(factors));
  return text;
}

Rounding Recipe::rounding(const Site& site) const {
  const auto found = std::ranges::find(roundings, site, &Rounding::site);
  return found == roundings.end() ? Rounding{.site = site} : *found;
}

Sum Recipe::sum(const Site& site) const {
  const auto found = std::ranges::find(sums, site, &Sum::site);
  return found == sums.end() ? Sum{.site = site} : *found;
}

std::vector<std::pair<std::string_view, std::string>> Recipe::sites(const std::vector<Site>& all_sums) const {
  constexpr size_t kMostSites = 100, kLongestName = 100;
  std::map<int, std::pair<std::string_view, std::string>> ordered;
  const auto add = [&](const Site& site, std::string what) {
    if (site.name.size() > kLongestName) throw Error("a site's name has more than {} bytes", kLongestName);
    const auto [found, is_new] = ordered.try_emplace(site.place, site.name, std::move(what));
    if (is_new) return;
    throw Error("the sites '{}' and '{}' share place {} of the formula", found->second.first, site.name,
                site.place);
  };
  if (roundings.size() + sums.size() > kMostSites) throw Error("there are more than {} sites", kMostSites);
  for (const Rounding& rounding : roundings) {
    if (rounding.format != Format::kStored) add(rounding.site, rounding.to_string());
  }
  for (const Sum& sum : sums) add(sum.site, sum.to_string());
  for (const Site& site : all_sums) {
    if (std::ranges::count(sums, site, &Sum::site) == 0) add(site, sum(site).to_string());
  }
  std::vector<std::pair<std::string_view, std::string>> all;
  for (const auto& [place, site] : ordered) all.push_back(site);
  all.emplace_back("outputs", name_of(storage));
  return all;
}

std::string Recipe::to_string() const {
  std::vector<std::string> parts;
  for (const auto& [name, what] : sites()) parts.push_back(fmt::format("{}: {}", name, what));
  return fmt::format("{} storage; {}", name_of(storage), fmt::join(parts, "; "));
}

}  // namespace assay
