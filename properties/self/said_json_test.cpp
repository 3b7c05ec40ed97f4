// SPDX-License-Identifier: Apache-2.0
#include "properties/core/said_json.h"

#include "properties/core/recipes.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

auto fields(const Rounding& item) {
  const auto& [site, format, mode, is_scaled, is_optional] = item;
  return std::tuple(site.place, site.name, format, mode, is_scaled, is_optional);
}
auto fields(const Sum& item) {
  const auto& [site, factors, order, is_scaled, truncates, group] = item;
  return std::tuple(site.place, site.name, factors, order, is_scaled, truncates, group);
}

void expect_same(const Recipe& recipe, const Recipe& expected) {
  EXPECT_EQ(recipe.storage, expected.storage);
  const auto is_same = [](const auto& a, const auto& b) { return fields(a) == fields(b); };
  EXPECT_TRUE(std::ranges::equal(recipe.roundings, expected.roundings, is_same)) << recipe.to_string();
  EXPECT_TRUE(std::ranges::equal(recipe.sums, expected.sums, is_same)) << recipe.to_string();
}

TEST(SaidJson, BringsEveryRecipe) {
  int recipes = 0;
  for (const Op* op : registry().ops()) {
    for (const Path& path : all_paths(*op)) {
      for (const NamedRecipe& named : recipes_of(*op, path).recipes) {
        expect_same(recipe_from_json(Json::parse(to_json(named.recipe).dump())), named.recipe);
        ++recipes;
      }
    }
  }
  EXPECT_GT(recipes, 20);
}

TEST(SaidJson, BringsEveryField) {
  const Recipe all{.storage = DType::kBF16,
                   .roundings = {{.site = {3, "x"},
                                  .format = Format::kF16x3,
                                  .mode = Rounding::Mode::kTowardZero,
                                  .is_scaled = true,
                                  .is_optional = true}},
                   .sums = {{.site = {4, "y"},
                             .factors = Format::kBF16,
                             .order = Sum::Order::kContiguous,
                             .is_scaled = true,
                             .truncates = true,
                             .group = size_t{1} << 40}}};
  expect_same(recipe_from_json(to_json(all)), all);
}

TEST(SaidJson, RefusesWhatIsNoRecipe) {
  const Rounding rounding{.site = {1, "x"}, .format = Format::kF16};
  const Json whole = to_json(Recipe{.storage = DType::kF32, .roundings = {rounding}, .sums = {}});
  for (const char* text :
       {R"(["/storage", 9])", R"(["/storage", "f32"])", R"(["/roundings/0/1", -1])",
        R"(["/roundings/0/0", []])", R"(["/sums", [[[1, "y"], 0, 0, false, false, 0]]])"}) {
    const Json change = Json::parse(text);
    Json changed = whole;
    changed[Json::json_pointer(change[0].get<std::string>())] = change[1];
    EXPECT_ANY_THROW(recipe_from_json(changed)) << text;
  }
}

TEST(SaidJson, RefusesWhatIsTooLongForARecipe) {
  const auto of = [](size_t sites, size_t length) {
    static const std::string name(101, 'x');
    Recipe recipe{.storage = DType::kF32};
    for (size_t i = 0; i < sites; ++i)
      recipe.sums.push_back({.site = {static_cast<int>(i), std::string_view(name).substr(0, length)}});
    return to_json(recipe);
  };
  EXPECT_NO_THROW(recipe_from_json(of(100, 100)));
  EXPECT_THROW(recipe_from_json(of(101, 100)), Error);
  EXPECT_THROW(recipe_from_json(of(100, 101)), Error);
}

TEST(SaidJson, TakesNewNamesForEver) {
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = std::to_string(i);
    const Recipe sent{.storage = DType::kF32, .sums = {{.site = {0, name}}}};
    ASSERT_EQ(recipe_from_json(to_json(sent)).sums.at(0).site.name, name);
  }
}

TEST(SaidJson, BringsVerdicts) {
  const Verdict refusal{.kind = VerdictKind::kUnsupported, .reason = "it is odd", .outputs = {}};
  const Said said = said_from_json(to_json(Said{.verdict = refusal}));
  EXPECT_FALSE(said.recipe);
  EXPECT_EQ(said.verdict.value().kind, VerdictKind::kUnsupported);
  EXPECT_EQ(said.verdict->reason, "it is odd");
  for (const char* text : {R"({"verdict": "pass", "reason": ""})", R"({"verdict": 1, "reason": ""})",
                           R"({"verdict": "fail"})", R"({"recipe": []})"})
    EXPECT_ANY_THROW(said_from_json(Json::parse(text))) << text;
}

}  // namespace
}  // namespace assay
