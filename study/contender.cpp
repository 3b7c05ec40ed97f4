// SPDX-License-Identifier: Apache-2.0
#include "study/contender.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <set>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"
#include "properties/core/recipes.h"

namespace assay::study {
namespace {

// One SITE=WHAT.
struct Change {
  std::vector<Site> sites;
  std::string what;
};

struct FormatWord {
  std::string_view word;
  Format format;
};
constexpr std::array kFormats{FormatWord{"f32", Format::kStored},    FormatWord{"f16", Format::kF16},
                              FormatWord{"bf16", Format::kBF16},     FormatWord{"tf32", Format::kTF32},
                              FormatWord{"bf16x3", Format::kBF16x3}, FormatWord{"f16x3", Format::kF16x3}};
constexpr std::string_view kGroups = "groups-of-";

std::optional<Format> format_in(std::string_view word) {
  const auto found = std::ranges::find(kFormats, word, &FormatWord::word);
  return found == kFormats.end() ? std::nullopt : std::optional(found->format);
}

size_t group_in(const std::string& what) {
  size_t group = 0;
  const char* end = what.data() + what.size();
  const auto read = std::from_chars(what.data() + kGroups.size(), end, group);
  return read.ec == std::errc() && read.ptr == end ? group : 0;
}

std::optional<Plant::Kind> kept_in(std::string_view what) {
  if (what == "kept-in-bf16") return Plant::Kind::kSumInBF16;
  if (what == "kept-in-f16") return Plant::Kind::kSumInF16;
  return std::nullopt;
}

bool is_known(const std::string& what) {
  return format_in(what) || what == "nearest" || what == "truncated" || kept_in(what) ||
         (what.starts_with(kGroups) && group_in(what) > 0);
}

// All sites that a path of the op names, and those of the formula's sums.
std::vector<Site> sites_of(const Op& op, const Oracle& oracle, const Dims& dims) {
  std::vector<Site> sites = oracle.sums;
  const auto add = [&](const Site& site) {
    if (std::ranges::count(sites, site) == 0) sites.push_back(site);
  };
  for (const Path& path : all_paths(op)) {
    for (DType dtype : path.dtypes) {
      const Recipe recipe = path.recipe(dims, dtype);
      for (const Rounding& rounding : recipe.roundings) add(rounding.site);
      for (const Sum& sum : recipe.sums) add(sum.site);
    }
  }
  std::ranges::sort(sites, {}, &Site::place);
  return sites;
}

void apply(const Change& change, const std::vector<Site>& sums, Recipe& recipe) {
  for (const Site& site : change.sites) {
    const bool is_sum = std::ranges::count(sums, site) != 0;
    if (const auto format = format_in(change.what); format && !is_sum) {
      std::erase_if(recipe.roundings, [&](const Rounding& rounding) { return rounding.site == site; });
      if (*format != Format::kStored) recipe.roundings.push_back({.site = site, .format = *format});
    }
    if (!is_sum || kept_in(change.what)) continue;
    Sum sum = recipe.sum(site);
    sum.site = site;
    if (const auto format = format_in(change.what)) sum.factors = *format;
    if (change.what == "nearest") sum.truncates = false;
    if (change.what == "truncated") sum.truncates = true;
    if (change.what.starts_with(kGroups)) sum.group = group_in(change.what);
    std::erase_if(recipe.sums, [&](const Sum& other) { return other.site == site; });
    recipe.sums.push_back(sum);
  }
}

Dims ones(const Op& op) {
  Dims dims;
  for (const DimInfo& dim : op.dims) dims.set(dim.key, std::clamp<int64_t>(1, dim.min, dim.max));
  return dims;
}

}  // namespace

std::string Contender::label() const {
  return fmt::format("{} in {}", name, name_of(dtype));
}

std::string Contender::why_not_at(size_t point) const {
  const auto found = why_not.find(point);
  return found == why_not.end() ? "" : found->second;
}

std::vector<Contender> parse_recipe(const Op& op, const Oracle& oracle, const std::string& text) {
  std::vector<std::string> parts{""};
  for (char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  const auto sides = [&](const std::string& part) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_error("--recipe {}: {} is not NAME=PATH, nor SITE=WHAT after it", excerpt(text),
                        excerpt(part));
    return std::pair(part.substr(0, equals), part.substr(equals + 1));
  };
  const auto [name, base] = sides(parts[0]);
  const std::vector<Path> paths = all_paths(op);
  const auto found = std::ranges::find(paths, base, [](const Path& path) { return std::string(path.name); });
  if (found == paths.end()) {
    std::vector<std::string> known;
    for (const Path& path : paths) known.emplace_back(path.name);
    throw usage_error("--recipe {}: {} has no path {}{}", excerpt(text), op.name, excerpt(base),
                      did_you_mean(base, known, "there are"));
  }
  const std::vector<Site> sites = sites_of(op, oracle, ones(op));
  std::vector<Change> changes;
  Plant plant;
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto [site, what] = sides(parts[i]);
    Change change{.sites = {}, .what = what};
    std::vector<std::string> known;
    for (const Site& one : sites) {
      known.emplace_back(one.name);
      if (site == "*" || one.name == site) change.sites.push_back(one);
    }
    if (change.sites.empty())
      throw usage_error("--recipe {}: {} has no site {}{}", excerpt(text), op.name, excerpt(site),
                        did_you_mean(site, known, "there are"));
    if (!is_known(what))
      throw usage_error("--recipe {}: {} is no format and no way to add up", excerpt(text), excerpt(what));
    if (const auto kind = kept_in(what)) {
      if (site == "*" || plant.kind != Plant::Kind::kNone ||
          std::ranges::count(oracle.sums, change.sites[0]) == 0)
        throw usage_error("--recipe {}: {} is for one sum", excerpt(text), excerpt(what));
      plant = {.kind = *kind, .site = change.sites[0]};
    }
    changes.push_back(std::move(change));
  }
  std::vector<Contender> all;
  for (DType dtype : found->dtypes) {
    all.push_back({.name = name,
                   .dtype = dtype,
                   .recipe =
                       [recipe_of = found->recipe, dtype, changes, sums = oracle.sums](const Dims& dims) {
                         Recipe recipe = recipe_of(dims, dtype);
                         for (const Change& change : changes) apply(change, sums, recipe);
                         return recipe;
                       },
                   .plant = plant});
  }
  return all;
}

std::vector<Contender> contenders_of(const Op& op, const Oracle& oracle,
                                     const std::vector<std::string>& globs,
                                     const std::vector<std::string>& recipes,
                                     const std::function<bool(DType)>& wants,
                                     const std::function<bool(const Path&)>& runs, const Dims& dims) {
  std::vector<Contender> all;
  std::set<std::string> emulated;
  const auto add = [&](Contender contender) {
    if (!wants(contender.dtype)) return;
    const bool is_asked_for = contender.plant.kind != Plant::Kind::kNone;
    const std::string says =
        fmt::format("{}: {}", name_of(contender.dtype), contender.recipe(dims).to_string());
    if (contender.is_emulated() && !is_asked_for && !emulated.insert(says).second) return;
    all.push_back(std::move(contender));
  };
  const auto matches = [&](std::string_view name) {
    return globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
             return fnmatch(glob.c_str(), std::string(name).c_str(), 0) == 0;
           });
  };
  for (const Path& path : all_paths(op)) {
    if (!matches(path.name)) continue;
    const auto own = std::ranges::find(op.paths, path.name, &Path::name);
    const Path* const runnable = own != op.paths.end() && runs(*own) ? &*own : nullptr;
    for (DType dtype : path.dtypes) {
      add({.name = std::string(path.name),
           .dtype = dtype,
           .path = runnable,
           .recipe = [recipe_of = path.recipe, dtype](const Dims& at) { return recipe_of(at, dtype); }});
    }
  }
  for (const std::string& text : recipes) {
    for (Contender& contender : parse_recipe(op, oracle, text)) add(std::move(contender));
  }
  return all;
}

}  // namespace assay::study
