// SPDX-License-Identifier: Apache-2.0
#include "reports/render/probe.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "probe/describe.h"
#include "reports/render/text.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kNothing = "not found";

std::string describe_adds(const Probed& probed) {
  const Accumulator& found = probed.accumulator;
  if (probed.is_scaled) return "not seen: terms have a common factor that is no power of two";
  std::string text = found.bits ? fmt::format("{} bits", *found.bits) : std::string(kNothing);
  if (found.mode) text += fmt::format(", rounded {}", name_of(*found.mode));
  if (found.fraction)
    text += fmt::format("; fused groups are cut {} bits below their largest part", *found.fraction);
  if (found.keeps_subnormals)
    text += *found.keeps_subnormals ? "; subnormal results are kept" : "; subnormal results become 0";
  return text;
}

std::string describe_products(const Accumulator& found) {
  const auto fused = std::ranges::count(found.is_fused, true);
  if (found.is_fused.empty()) return "";
  if (fused == 0) return "rounded before they are added";
  std::vector<size_t> apart;
  for (size_t k = 0; k < found.is_fused.size(); ++k) {
    if (!found.is_fused[k]) apart.push_back(k);
  }
  if (apart.empty()) return "added unrounded, by fused multiply-adds";
  return fmt::format("added unrounded, by fused multiply-adds, but for {} {}",
                     apart.size() == 1 ? "term" : "terms",
                     apart.size() > 8 ? plural(static_cast<int64_t>(apart.size()), "term")
                                      : fmt::format("{}", fmt::join(apart, ", ")));
}

std::string describe_factors(const FactorUse& use) {
  std::string text = fmt::format("{} bits", use.bits);
  text +=
      use.mode ? fmt::format(" of those stored, rounded {}", name_of(*use.mode)) : ", all that are stored";
  if (use.lacks_low_product) text += "; in two parts, without the product of the low ones";
  if (!use.keeps_subnormals) text += "; subnormal ones count as 0";
  return text;
}

std::string describe_proof(const Replay& proof) {
  if (!proof.why_not.empty()) return "none: " + proof.why_not;
  std::string text = fmt::format("{} of {} random draws are reproduced to the bit",
                                 format_count(proof.reproduced), format_count(proof.draws));
  return proof.first.empty() ? text : text + "; " + proof.first;
}

// To two digits, upwards.
std::string format_bound(double bound) {
  const double place = std::pow(10.0, std::floor(std::log10(bound)) - 1);
  return fmt::format("{:.2g}", std::ceil(bound / place) * place);
}

std::string describe_bounds(const Probed& probed) {
  const int64_t depth = depth_of(*probed.tree);
  const SumBounds& bounds = probed.bounds;
  if (!bounds.why_not.empty()) return fmt::format("none: {}; the depth is {}", bounds.why_not, depth);
  std::string text = fmt::format("the error is at most {} of the sum of |terms|, by the depth of {}; ",
                                 format_bound(bounds.of_tree), depth);
  text += depth == probed.terms - 1 ? "no order has more"
                                    : fmt::format("{} in any order", format_bound(bounds.of_any_order));
  return probed.proof.draws == 0
             ? text
             : text + fmt::format("; {} in the draws", format_number(probed.proof.largest_error));
}

std::string describe_identity(const Identity& identity) {
  if (!identity.why_not.empty()) return "not tried: " + identity.why_not;
  if (identity.difference) return "not the formula's polynomial: " + *identity.difference;
  return fmt::format(
      "equal to the formula on {}: {} of {} integers. Another polynomial of degree {} would be with "
      "probability <= {:.1g}; what is no polynomial of that degree is not tested",
      format_dims(identity.dims), plural(identity.draws, "draw"), identity.values, identity.degree,
      identity.miss);
}

std::vector<std::pair<std::string, std::string>> lines_of(const Probed& probed) {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&](std::string key, std::string text) {
    if (!text.empty()) lines.emplace_back(std::move(key), std::move(text));
  };
  add("not probed", probed.why_not);
  if (probed.tree) {
    add("tree", shape_of_tree(*probed.tree));
    add("", line_of_tree(*probed.tree));
    add("adds", describe_adds(probed));
    add("products", describe_products(probed.accumulator));
    if (probed.accumulator.factors) add("factors", describe_factors(*probed.accumulator.factors));
    for (const std::string& what : probed.accumulator.unclear) add("unclear", what);
    if (!probed.is_scaled) add("proof", describe_proof(probed.proof));
    add("bound", describe_bounds(probed));
  }
  for (const std::string& what : probed.differing) add("differs", what);
  if (probed.tree) add("declared", probed.declared);
  for (const std::string& what : probed.contradictions) add("contradicts", what);
  if (probed.identity) add("exact", describe_identity(*probed.identity));
  return lines;
}

Json tree_json(const SumTree& tree) {
  // Nodes from the leaves to the root: the first one has the number after the last term.
  Json nodes = Json::array();
  const auto terms = leaf_count(tree);
  const auto add = [&](const auto& self, const SumTree& at) -> int64_t {
    if (at.is_leaf()) return at.leaf;
    Json parts = Json::array();
    for (const SumTree& part : at.parts) parts.push_back(self(self, part));
    nodes.push_back(std::move(parts));
    return terms + static_cast<int64_t>(nodes.size()) - 1;
  };
  add(add, tree);
  return {{"shape", shape_of_tree(tree)},
          {"line", line_of_tree(tree)},
          {"depth", depth_of(tree)},
          {"widest", widest_node(tree)},
          {"nodes", std::move(nodes)}};
}

Json accumulator_json(const Accumulator& found) {
  Json json = Json::object();
  if (found.bits) json["bits"] = *found.bits;
  if (found.mode) json["rounding"] = name_of(*found.mode);
  if (found.fraction) json["fraction_bits"] = *found.fraction;
  if (found.keeps_subnormals) json["keeps_subnormals"] = *found.keeps_subnormals;
  if (!found.is_fused.empty()) json["fused_products"] = found.is_fused;
  if (found.factors) {
    Json& factors = json["factors"] = {{"bits", found.factors->bits},
                                       {"lacks_low_product", found.factors->lacks_low_product},
                                       {"keeps_subnormals", found.factors->keeps_subnormals}};
    if (found.factors->mode) factors["rounding"] = name_of(*found.factors->mode);
  }
  json["unclear"] = found.unclear;
  return json;
}

Json identity_json(const Identity& identity) {
  Json json = {{"dims", format_dims(identity.dims)},
               {"degree", identity.degree},
               {"values", identity.values},
               {"draws", identity.draws},
               {"miss_probability", identity.miss}};
  if (identity.difference) json["difference"] = *identity.difference;
  if (!identity.why_not.empty()) json["why_not"] = identity.why_not;
  return json;
}

Json sum_json(const Probed& probed) {
  Json json = {{"site", probed.sum->site.name},
               {"what", probed.sum->what},
               {"dtype", name_of(probed.dtype)},
               {"is_consistent", is_consistent(probed)}};
  if (!probed.why_not.empty()) json["why_not"] = probed.why_not;
  if (probed.terms == 0) return json;
  json["terms"] = probed.terms;
  json["dims"] = format_dims(probed.dims);
  json["declared"] = probed.declared;
  json["pairs"] = probed.pairs;
  if (probed.tree) {
    json["tree"] = tree_json(*probed.tree);
    json["accumulator"] = accumulator_json(probed.accumulator);
  }
  if (probed.tree && probed.bounds.why_not.empty())
    json["bound"] = {{"of_tree", probed.bounds.of_tree}, {"of_any_order", probed.bounds.of_any_order}};
  if (probed.tree && !probed.bounds.why_not.empty()) json["bound"] = {{"why_not", probed.bounds.why_not}};
  if (probed.tree && !probed.is_scaled) {
    json["proof"] = {{"draws", probed.proof.draws}, {"reproduced", probed.proof.reproduced}};
    if (!probed.proof.why_not.empty()) json["proof"]["why_not"] = probed.proof.why_not;
    if (probed.proof.draws > 0) json["proof"]["largest_error"] = probed.proof.largest_error;
    if (!probed.proof.first.empty()) json["proof"]["first_difference"] = probed.proof.first;
  }
  json["differing"] = probed.differing;
  json["contradictions"] = probed.contradictions;
  if (probed.identity) json["identity"] = identity_json(*probed.identity);
  json["seconds"] = probed.seconds;
  return json;
}

std::string heading_of(const Probed& probed) {
  const std::string terms = probed.terms == 0 ? "" : fmt::format(", {}", plural(probed.terms, "term"));
  return fmt::format("{}: {}, {}{}", probed.sum->site.name, probed.sum->what, name_of(probed.dtype), terms);
}

std::string picture_name(const ProbedPath& path, const Probed& probed) {
  std::string name =
      fmt::format("{}.{}.{}.{}.svg", path.op, path.path, name_of(probed.dtype), probed.sum->site.name);
  std::ranges::replace_if(
      name, [](char c) { return c == ' ' || c == '/' || c == ',' || c == '(' || c == ')'; }, '_');
  return name;
}

}  // namespace

std::string render_probed(const ProbedPath& path, int width) {
  std::string text = fmt::format("{}/{} on {} ({})\n", path.op, path.path, path.device, path.model);
  for (const Probed& probed : path.sums) {
    text += fmt::format("  {}\n", heading_of(probed));
    for (const auto& [key, what] : lines_of(probed))
      text += wrapped(fmt::format("    {:<11} {}", key, printable(what)), width, 16) + "\n";
  }
  return text;
}

std::string probe_json(const std::vector<ProbedPath>& paths, const ToolRecord& tool, uint64_t seed) {
  // A line for each sum: records are compared line by line.
  std::vector<std::string> all;
  for (const ProbedPath& path : paths) {
    std::vector<std::string> sums;
    for (const Probed& probed : path.sums)
      sums.push_back(sum_json(probed).dump(-1, ' ', false, Json::error_handler_t::replace));
    const Json heading = {
        {"op", path.op}, {"path", path.path}, {"device", path.device}, {"model", path.model}};
    all.push_back(fmt::format("{{\"path\": {},\n\"sums\": [\n{}]}}", heading.dump(), fmt::join(sums, ",\n")));
  }
  const Json of_tool = {{"version", tool.version}, {"git", tool.git}, {"dirty", tool.dirty}};
  return fmt::format("{{\"schema\": \"assay.probe/1\",\n\"tool\": {},\n\"seed\": {},\n\"paths\": [\n{}]}}\n",
                     of_tool.dump(), seed, fmt::join(all, ",\n"));
}

std::vector<NamedContent> probe_files(const std::vector<ProbedPath>& paths, const ToolRecord& tool,
                                      uint64_t seed, const std::filesystem::path& folder) {
  std::vector<NamedContent> files{{folder / "probe.json", probe_json(paths, tool, seed)}};
  std::string page =
      fmt::format("# How these paths add up\n\nassay {} ({}), seed {}\n", tool.version, tool.git, seed);
  for (const ProbedPath& path : paths) {
    page += fmt::format("\n## {}/{}\n\n```\n{}```\n", path.op, path.path, render_probed(path, 120));
    for (const Probed& probed : path.sums) {
      if (!probed.tree) continue;
      const std::string name = picture_name(path, probed);
      files.push_back(
          {folder / name,
           picture_of_tree(*probed.tree,
                           escape_markup(fmt::format("{}/{}, {}", path.op, path.path, heading_of(probed))))});
      page += fmt::format("\n![{}]({})\n", heading_of(probed), name);
    }
  }
  files.push_back({folder / "probe.md", page});
  return files;
}

}  // namespace assay
