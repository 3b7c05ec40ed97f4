// SPDX-License-Identifier: Apache-2.0
#include "properties/core/said_json.h"

#include <array>
#include <deque>
#include <memory>
#include <string>

#include "kernels/core/printable.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Site& site) {
  return {site.place, site.name};
}

constexpr std::array kVerdicts{VerdictKind::kFail, VerdictKind::kUnsupported, VerdictKind::kCrashed,
                               VerdictKind::kSkipped};

using Names = std::deque<std::string>;

Site site_from_json(const Json& json, Names& names) {
  return {.place = json.at(0).get<int>(), .name = names.emplace_back(json.at(1).get<std::string>())};
}

template <class E>
E enum_from_json(const Json& json, E last) {
  const int value = json.get<int>();
  if (value < 0 || value > static_cast<int>(last)) throw Error("{} is no value of an enumeration", value);
  return static_cast<E>(value);
}

}  // namespace

Json to_json(const Recipe& recipe) {
  Json json{
      {"storage", static_cast<int>(recipe.storage)}, {"roundings", Json::array()}, {"sums", Json::array()}};
  for (const Rounding& rounding : recipe.roundings) {
    json["roundings"].push_back({to_json(rounding.site), static_cast<int>(rounding.format),
                                 static_cast<int>(rounding.mode), rounding.is_scaled, rounding.is_optional});
  }
  for (const Sum& sum : recipe.sums) {
    json["sums"].push_back({to_json(sum.site), static_cast<int>(sum.factors), static_cast<int>(sum.order),
                            sum.is_scaled, sum.truncates, sum.group});
  }
  return json;
}

Recipe recipe_from_json(const Json& json) {
  Recipe recipe{.storage = enum_from_json(json.at("storage"), DType::kBF16)};
  const auto names = std::make_shared<Names>();
  recipe.names = names;
  for (const Json& rounding : json.at("roundings")) {
    recipe.roundings.push_back({.site = site_from_json(rounding.at(0), *names),
                                .format = enum_from_json(rounding.at(1), Format::kF16x3),
                                .mode = enum_from_json(rounding.at(2), Rounding::Mode::kTowardZero),
                                .is_scaled = rounding.at(3).get<bool>(),
                                .is_optional = rounding.at(4).get<bool>()});
  }
  for (const Json& sum : json.at("sums")) {
    recipe.sums.push_back({.site = site_from_json(sum.at(0), *names),
                           .factors = enum_from_json(sum.at(1), Format::kF16x3),
                           .order = enum_from_json(sum.at(2), Sum::Order::kContiguous),
                           .is_scaled = sum.at(3).get<bool>(),
                           .truncates = sum.at(4).get<bool>(),
                           .group = sum.at(5).get<size_t>()});
  }
  static_cast<void>(recipe.sites());  // throws for what no recipe may be
  return recipe;
}

Json to_json(const Said& said) {
  Json json = Json::object();
  if (said.verdict) {
    json["verdict"] = name_of(said.verdict->kind);
    json["reason"] = said.verdict->reason;
  }
  if (said.recipe) json["recipe"] = to_json(*said.recipe);
  return json;
}

Said said_from_json(const Json& json) {
  Said said;
  if (json.contains("verdict")) {
    said.verdict = Verdict{.kind = value_of(kVerdicts, json["verdict"].get<std::string>()),
                           .reason = excerpt(json.at("reason").get<std::string>(), kLongestReason),
                           .outputs = {}};
  }
  if (json.contains("recipe")) said.recipe = recipe_from_json(json["recipe"]);
  return said;
}

}  // namespace assay
