// SPDX-License-Identifier: Apache-2.0
#include "reports/program/study_options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <set>

#include "kernels/core/printable.h"
#include "reports/program/option_values.h"

namespace assay {
namespace {

double positive(std::string_view option, const std::string& whole, std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !(number > 0) || !std::isfinite(number))
    throw usage_error("{} {} is not an error such as 1e-3", option, excerpt(whole));
  return number;
}

}  // namespace

void add_study_options(CLI::App& sub, StudyOptions& options) {
  sub.add_option("--paths", options.paths, "Globs on paths, with commas: 'cuda.*,cpu' (default all)")
      ->type_name("GLOBS");
  sub.add_option("--sweep", options.sweeps,
                 "An axis: n=64:2048:x2, x.mean_over_std=0,1,10 or weights.scale=0.25,1; properties are "
                 "mean_over_std, scale, spread, rank and density")
      ->type_name("AXIS");
  sub.add_option("--data", options.data,
                 "Where values come from: regimes, outliers:SHARE:SCALE, graded:OCTAVES (default normal)")
      ->type_name("DATA");
  sub.add_option("--recipe", options.recipes,
                 "A recipe to emulate, made from that of a path: mine=cuda.bf16:hidden=f32")
      ->type_name("RECIPE");
  sub.add_option("--repeat", options.draws, "Draws of the inputs at each point (default 8, at least 3)")
      ->type_name("N");
  sub.add_option("--target", options.target, "What is asked for (default normwise=1e-3)")->type_name("ERROR");
  sub.add_option("--worst-element", options.worst_element,
                 "Also asked for: the largest error of an element over the rms of the output")
      ->type_name("ERROR");
  sub.add_flag("--no-time", options.no_time, "Do not time the paths");
}

study::Target target_of(const StudyOptions& options) {
  constexpr std::string_view kNormwise = "normwise=";
  const std::string& text = options.target;
  if (!text.starts_with(kNormwise))
    throw usage_error("--target {} is not normwise=ERROR, such as normwise=1e-3", excerpt(text));
  study::Target target{.normwise =
                           positive("--target", text, std::string_view(text).substr(kNormwise.size()))};
  if (!options.worst_element.empty())
    target.worst = positive("--worst-element", options.worst_element, options.worst_element);
  return target;
}

int64_t draws_of(const StudyOptions& options) {
  return parse_integer<int64_t>("--repeat", options.draws, 3);
}

std::vector<std::string> globs_of(const StudyOptions& options) {
  std::string words = options.paths;
  std::ranges::replace(words, ',', ' ');
  return words_of(words);
}

std::vector<study::Axis> axes_of(const Op& op, const StudyOptions& options, bool has_file) {
  std::vector<std::string> sweeps = options.sweeps;
  if (sweeps.empty() && !has_file) {
    sweeps.push_back(fmt::format("{}.mean_over_std=0,1,10,100", op.inputs.at(0).name));
    if (op.inputs.size() > 1) sweeps.emplace_back("weights.scale=0.25,1,4");
  }
  std::vector<study::Axis> axes;
  std::set<std::string> names;
  for (const std::string& sweep : sweeps) {
    axes.push_back(study::parse_axis(op, sweep));
    if (!names.insert(axes.back().name).second)
      throw usage_error("--sweep {} stands twice", axes.back().name);
    if (has_file && axes.back().kind == study::Axis::Kind::kProperty &&
        axes.back().property == study::Property::kRank)
      throw usage_error("--sweep {} draws values, but --in gives them", axes.back().name);
  }
  if (!options.data.empty()) {
    if (has_file) throw usage_error("--data draws values, but --in gives them");
    axes.push_back(study::parse_data_axis(options.data));
  }
  return axes;
}

}  // namespace assay
