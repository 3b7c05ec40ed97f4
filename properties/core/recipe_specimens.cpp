// SPDX-License-Identifier: Apache-2.0
#include "properties/core/recipe_specimens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "properties/core/recipes.h"

namespace assay {
namespace {

using Kind = Plant::Kind;

// A name that lives as long as the program: tables hold views.
std::string_view kept(std::string text) {
  static std::set<std::string> all;
  return *all.insert(std::move(text)).first;
}

std::string snake_case(std::string_view text) {
  std::string name;
  for (char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(c));
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  while (name.ends_with('_')) name.pop_back();
  return name;
}

struct Words {
  std::string_view name, sentence;
};

Words words_of(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      break;
    case Kind::kTruncated:
      return {"truncated", "rounded toward zero"};
    case Kind::kNotRounded:
      return {"not_rounded", "not rounded"};
    case Kind::kSumInBF16:
      return {"summed_in_bf16", "summed in bf16"};
    case Kind::kSumInF16:
      return {"summed_in_f16", "summed in f16"};
    case Kind::kLastTermDropped:
      return {"lacks_last_term", "summed without the last term, in an eighth of the sums"};
    case Kind::kCrossProductMissing:
      return {"lacks_cross_product", "summed without lo*hi"};
    case Kind::kSigmoidOff:
      return {"sigmoid_off", "sigmoids are off by up to 5e-4"};
    case Kind::kGeluOff:
      return {"gelu_off", "the tanh of a GELU is off by up to 5e-4"};
    case Kind::kEpsilonTimes10:
      return {"eps_times_10", "eps is ten times as large"};
    case Kind::kEpsilonOver10:
      return {"eps_over_10", "eps is a tenth"};
  }
  throw Error("Plant::Kind({}) is no fault", static_cast<int>(kind));
}

std::vector<Wrong> faults_of(const Recipe& recipe, const Oracle& oracle) {
  std::vector<Wrong> all;
  for (const Rounding& rounding : recipe.roundings) {
    if (rounding.format == Format::kStored || is_split(rounding.format)) continue;
    all.push_back({{Kind::kTruncated, rounding.site}});
    if (!rounding.is_optional) all.push_back({{Kind::kNotRounded, rounding.site}});
  }
  if (recipe.storage != DType::kF32 && !oracle.copies) all.push_back({{Kind::kTruncated, Plant::kOutputs}});
  for (const Site& site : oracle.sums) {
    for (Kind kind : {Kind::kSumInBF16, Kind::kSumInF16, Kind::kLastTermDropped})
      all.push_back({{kind, site}});
    if (is_split(recipe.sum(site).factors)) all.push_back({{Kind::kCrossProductMissing, site}});
  }
  for (Kind kind : oracle.plants) all.push_back({{.kind = kind}});
  for (size_t i = 0; i < oracle.slips.size(); ++i)
    all.push_back({.fault = static_cast<int>(oracle.faults.size() + i) + 1});
  return all;
}

void run(Recipe (*recipe)(const Dims&, DType), const Oracle& oracle, const Wrong& wrong, const Call& call) {
  const Question question{.dims = call.dims, .recipe = recipe(call.dims, call.dtype), .inputs = call.inputs};
  constexpr uint64_t kSeed = 1000;  // none of those that the laws sample
  const Arithmetic arithmetic(wrong.plant, kSeed);
  for (size_t output = 0; output < call.outputs.size(); ++output) {
    const TensorView& view = call.outputs[output];
    if (view.size() == 0) continue;
    std::vector<int64_t> elements(static_cast<size_t>(view.size()));
    std::iota(elements.begin(), elements.end(), int64_t{0});
    std::vector<Ball> values(elements.size());
    oracle.formula(question, static_cast<int>(output), arithmetic, wrong.fault)(elements, values);
    visit(view.dtype, [&]<class T>(std::type_identity<T>) {
      for (int64_t i : elements) {
        static_cast<T*>(view.data)[offset_of(index_of(i, view.shape), view.strides)] =
            from_double<T>(values[static_cast<size_t>(i)].mid);
      }
    });
  }
}

// "hidden_truncated", "hidden: rounded toward zero"
std::pair<std::string, std::string> words_of(const Wrong& wrong, const Oracle& oracle) {
  if (wrong.fault > 0) {
    const std::string_view slip = oracle.slips[static_cast<size_t>(wrong.fault) - oracle.faults.size() - 1];
    return {snake_case(slip), std::string(slip)};
  }
  const Plant& plant = wrong.plant;
  const auto [name, what] = words_of(plant.kind);
  if (plant.site.name.empty()) return {std::string(name), std::string(what)};
  return {fmt::format("{}_{}", snake_case(plant.site.name), name),
          fmt::format("{}: {}", plant.site.name, what)};
}

}  // namespace

Path formula_path(const Op& op, const Path& path, const Oracle& oracle, const Wrong& wrong) {
  return {
      .name = "formula",
      .device = DeviceKind::kCpu,
      .dtypes = path.dtypes,
      .deterministic = true,
      .recipe = path.recipe,
      .unsupported = {},
      .run = [recipe = path.recipe, &oracle, wrong](const Call& call) { run(recipe, oracle, wrong, call); },
      .summary = op.formula};
}

namespace {

std::string prefix_of(const Path& path) {
  return fmt::format("specimen.{}.", snake_case(path.name));
}

// Those of the recipes of a path that are not known yet.
std::vector<Specimen> of_path(const Op& op, const Oracle& oracle, const Path& path,
                              std::set<std::string>& known) {
  std::map<std::string, Specimen> by_name;
  for (const auto& [title, dtype, recipe] : recipes_of(op, path).recipes) {
    if (!known.insert(recipe.to_string()).second) continue;
    for (Wrong wrong : faults_of(recipe, oracle)) {
      const auto [name, sentence] = words_of(wrong, oracle);
      wrong.plant.site.name = kept(std::string(wrong.plant.site.name));  // the recipe goes
      const auto [found, is_new] = by_name.try_emplace(name);
      Specimen& specimen = found->second;
      if (is_new) {
        specimen = {.op = op.name,
                    .fault = kept(fmt::format("{}: {}", path.name, sentence)),
                    .path = formula_path(op, path, oracle, wrong)};
        specimen.path.name = kept(prefix_of(path) + name);
        specimen.path.summary = specimen.fault;
        specimen.path.dtypes.clear();
      }
      if (std::ranges::count(specimen.path.dtypes, dtype) == 0) specimen.path.dtypes.push_back(dtype);
    }
  }
  std::vector<Specimen> all;
  for (auto& [name, specimen] : by_name) all.push_back(std::move(specimen));
  return all;
}

}  // namespace

std::vector<Specimen> recipe_specimens(const Op& op, const Oracle& oracle) {
  std::vector<Specimen> all;
  std::set<std::string> known;
  for (const Path& path : all_paths(op))
    std::ranges::move(of_path(op, oracle, path, known), std::back_inserter(all));
  return all;
}

std::optional<Specimen> recipe_specimen(const Op& op, const Oracle& oracle, std::string_view name) {
  for (const Path& path : all_paths(op)) {
    if (!name.starts_with(prefix_of(path))) continue;
    std::set<std::string> known;
    for (Specimen& specimen : of_path(op, oracle, path, known)) {
      if (specimen.path.name == name) return std::move(specimen);
    }
  }
  return std::nullopt;
}

}  // namespace assay
