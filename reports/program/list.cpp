// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/core/printable.h"
#include "kernels/core/read_file.h"
#include "properties/core/recipes.h"
#include "reports/program/commands.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/terminal.h"
#include "reports/record/probe_record.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::vector<std::string_view> dtype_names(const Path& path) {
  std::vector<std::string_view> names;
  for (DType dtype : path.dtypes) names.push_back(name_of(dtype));
  return names;
}

Json tensors_json(const std::vector<TensorInfo>& tensors) {
  Json list = Json::array();
  for (const TensorInfo& tensor : tensors) {
    list.push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"meaning", tensor.meaning}});
    if (tensor.dtype) list.back()["dtype"] = name_of(*tensor.dtype);
  }
  return list;
}

// {"cheri_conv_norm_apply": ["rows=4,threads=256", ...]}: what `state=forced:` takes.
Json tunables_json(const Path& path) {
  Json tunables = Json::object();
  for (const Tunable* tunable : path.tunables) {
    Json& configs = tunables[tunable->name] = Json::array();
    for (const Config& config : tunable->configs) configs.push_back(config.to_string());
  }
  return tunables;
}

Json op_json(const Op& op) {
  Json dims = Json::array();
  for (const DimInfo& dim : op.dims) {
    dims.push_back({{"key", dim.key}, {"min", dim.min}, {"max", dim.max}, {"meaning", dim.meaning}});
  }
  return {{"op", op.name},
          {"formula", op.formula},
          {"dims", dims},
          {"inputs", tensors_json(op.inputs)},
          {"outputs", tensors_json(op.outputs)},
          {"paths", Json::array()}};
}

// {"f32": {"xn": "f16, scaled", ..., "outputs": "f32"}}
Json recipes_json(const SaidRecipes& said, const std::vector<Site>& sums) {
  Json recipes = Json::object();
  for (const auto& [name, dtype, recipe] : said.recipes) {
    for (const auto& [site, what] : recipe.sites(sums)) recipes[name][std::string(site)] = what;
  }
  return recipes;
}

// What a probe.json says of the sum at a site of a path; empty if nothing.
std::string probed_at(const std::vector<ProbeFinding>& probed, const Path& path, std::string_view op,
                      std::string_view dtype, std::string_view site) {
  const auto found = std::ranges::find_if(probed, [&](const ProbeFinding& one) {
    return one.op == op && one.path == path.name && one.dtype == dtype && one.site == site;
  });
  return found == probed.end() ? "" : found->text;
}

std::string signature(const std::vector<TensorInfo>& tensors) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : tensors) {
    const std::string dtype = tensor.dtype ? fmt::format(" {}", name_of(*tensor.dtype)) : "";
    names.push_back(fmt::format("{} ({}){}", tensor.name, tensor.shape, dtype));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

int run_list(const Registry& registry, const Options& options) {
  const auto devices = open_devices(options.device);
  const std::vector<ProbeFinding> probed = options.probed.empty()
                                               ? std::vector<ProbeFinding>()
                                               : parse_probe(read_file(options.probed), options.probed);
  Json ops = Json::array();
  const Op* previous = nullptr;
  const int width = text_width();
  for (const SelectedPath& selected : select_paths(registry, options, devices)) {
    const Op& op = *selected.subject.op;
    const Path& path = *selected.subject.path;
    const std::vector<Site>& sums = selected.subject.oracle->sums;
    if (options.dtype && std::ranges::count(path.dtypes, *options.dtype) == 0) continue;
    const std::string where = selected.device != nullptr ? selected.device->info().name() : "no device here";
    const SaidRecipes said =
        options.json || options.recipes || !probed.empty() ? recipes_of(op, path) : SaidRecipes{};
    if (&op != previous) {
      ops.push_back(op_json(op));
      if (!options.json) {
        const std::string heading = fmt::format("{}  {}", op.name, op.formula);
        const std::string tensors = fmt::format("  {} -> {}", signature(op.inputs), signature(op.outputs));
        fmt::print("{}\n{}\n", wrapped(heading, width, 4), wrapped(tensors, width, 4));
      }
      previous = &op;
    }
    ops.back()["paths"].push_back({{"path", path.name},
                                   {"device", where},
                                   {"dtypes", dtype_names(path)},
                                   {"deterministic", path.deterministic},
                                   {"summary", path.summary},
                                   {"recipes", recipes_json(said, sums)},
                                   {"tunables", tunables_json(path)}});
    if (!options.json) {
      const std::string dtypes = fmt::format("{}", fmt::join(dtype_names(path), " "));
      const std::string line =
          fmt::format("  {:<15} {:<12}  {:<14}  {}", path.name, dtypes, where, path.summary);
      fmt::print("{}\n", wrapped(line, width, 6));
      if (options.recipes || !probed.empty()) {
        if (!said.why_not.empty()) fmt::print("{}\n", wrapped("    " + said.why_not, width, 6));
        for (const auto& [name, dtype, recipe] : said.recipes) {
          fmt::print("    in {}\n", name);
          for (const auto& [site, what] : recipe.sites(sums)) {
            fmt::print("      {:<20} {}\n", printable(site), what);
            if (const auto found = probed_at(probed, path, op.name, name, site); !found.empty())
              fmt::print("{}\n",
                         wrapped(fmt::format("        {:<18} {}", "probed", printable(found)), width, 27));
          }
        }
        continue;
      }
      for (const Tunable* tunable : path.tunables) {
        std::vector<std::string> configs;
        for (const Config& config : tunable->configs) configs.push_back(config.to_string());
        const std::string tunes = fmt::format("    tunes {}: {}", tunable->name, fmt::join(configs, " "));
        fmt::print("{}\n", wrapped(tunes, width, 6));
      }
    }
  }
  if (options.json) fmt::print("{}\n", ops.dump(2));
  if (!ops.empty()) return kExitPassed;
  if (options.dtype) fmt::print(stderr, "assay: no selected path serves {}\n", name_of(*options.dtype));
  return kExitNothingSelected;
}

}  // namespace assay
