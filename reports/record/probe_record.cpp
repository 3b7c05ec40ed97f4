// SPDX-License-Identifier: Apache-2.0
#include "reports/record/probe_record.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "kernels/core/json.h"

namespace assay {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kProbeSchema = "assay.probe/1";

const Json& list_in(const JsonFields& fields, const Json& json, const char* key) {
  if (!fields.has(key) || !json[key].is_array()) throw fields.error(key, "is no list");
  return json[key];
}

std::string text_of(const JsonFields& sum) {
  if (sum.has("why_not")) return "not probed: " + sum.text("why_not");
  std::vector<std::string> words{sum.object("tree").text("shape")};
  const JsonFields adder = sum.object("accumulator");
  if (adder.has("bits")) words.push_back(fmt::format("{} bits", adder.count("bits")));
  if (adder.has("rounding")) words.push_back("rounded " + adder.text("rounding"));
  if (adder.has("fraction_bits"))
    words.push_back(fmt::format("groups cut after {} bits", adder.count("fraction_bits")));
  for (const std::string& what : sum.texts("contradictions")) words.push_back("CONTRADICTS: " + what);
  return fmt::format("{}", fmt::join(words, "; "));
}

}  // namespace

std::vector<ProbeFinding> parse_probe(std::string_view text, std::string_view source) {
  const Json json = parse_json(text, source);
  const JsonFields fields(json, source);
  if (!json.is_object() || !fields.has("schema") || fields.text("schema") != kProbeSchema)
    throw usage_error("{}: not a record of probe: its schema is not {}", excerpt(source), kProbeSchema);
  std::vector<ProbeFinding> all;
  for (const Json& of_path : list_in(fields, json, "paths")) {
    const JsonFields path(of_path, source), heading = path.object("path");
    for (const Json& of_sum : list_in(path, of_path, "sums")) {
      const JsonFields sum(of_sum, source);
      ProbeFinding found{.op = heading.text("op"),
                         .path = heading.text("path"),
                         .model = heading.text("model"),
                         .dtype = sum.text("dtype"),
                         .site = sum.text("site"),
                         .what = sum.text("what"),
                         .terms = sum.has("terms") ? sum.count("terms") : 0,
                         .tree = "",
                         .nodes = "",
                         .text = text_of(sum)};
      if (sum.has("tree")) {
        found.tree = sum.object("tree").text("shape");
        found.nodes = list_in(sum.object("tree"), of_sum["tree"], "nodes").dump();
      }
      all.push_back(std::move(found));
    }
  }
  return all;
}

std::string tree_changes(const std::vector<ProbeFinding>& before, const std::vector<ProbeFinding>& after) {
  const auto key = [](const ProbeFinding& of) {
    return std::tie(of.op, of.path, of.model, of.dtype, of.site, of.what, of.terms);
  };
  std::string text;
  for (const ProbeFinding& old : before) {
    const auto found =
        std::ranges::find_if(after, [&](const ProbeFinding& one) { return key(one) == key(old); });
    if (found == after.end() || old.nodes.empty() || found->nodes.empty() || found->nodes == old.nodes)
      continue;
    text += fmt::format("{}/{} in {}: the summation tree of {} changed: {}, now {}\n", printable(old.op),
                        printable(old.path), printable(old.dtype), printable(old.what), printable(old.tree),
                        printable(found->tree));
  }
  return text;
}

}  // namespace assay
