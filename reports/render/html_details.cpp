// SPDX-License-Identifier: Apache-2.0
#include "reports/render/html_details.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "reports/render/failures.h"
#include "reports/render/render.h"
#include "reports/render/summary.h"
#include "reports/render/text.h"

namespace assay {
namespace {

const std::vector<std::string>& detail_columns() {
  static const std::vector<std::string> columns{"output",        "compared",      "of",    "error/bound",
                                                "rms/allowed",   "rms/predicted", "equal", "largest error",
                                                "normwise",      "max abs",       "bias",  "non-finite",
                                                "worst element", "got",           "want",  "bound"};
  return columns;
}

Json detail_row(const OutputNumerics& output) {
  const Comparison& seen = output.comparison;
  Json row{printable(output.name),
           format_count(seen.count),
           format_count(output.elements),
           format_ratio(seen.max_error_over_bound),
           format_ratio(rms_over_allowed(output)),
           format_ratio(numbers_of(output).rms_over_predicted),
           format_percent(numbers_of(output).share_of_equal()),
           format_number(seen.largest_error()),
           format_number(seen.rel_l2()),
           format_number(seen.max_abs),
           format_number(seen.bias()),
           format_count(seen.nonfinite)};
  if (seen.worst) {
    row.push_back(format_count(seen.worst->element));
    // The sign of a NaN is not kept.
    for (double value : {seen.worst->got, seen.worst->want, seen.worst->bound})
      row.push_back(std::isnan(value) ? "nan" : fmt::format("{:.9g}", value));
  }
  return row;
}

// JSON for a script element. It has no '<' that could end the element or open a comment.
std::string embedded_json(const Json& json) {
  std::string safe;
  for (char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", safe);
}

}  // namespace

std::string embedded_details(const Record& record) {
  Json json{{"columns", detail_columns()}, {"recipes", Json::array()}, {"cases", Json::array()}};
  std::map<std::string, size_t> recipes;
  for (const CaseRecord& item : record.cases) {
    const auto [recipe, is_new] = recipes.emplace(item.verdict.recipe, recipes.size());
    if (is_new) json["recipes"].push_back(printable(item.verdict.recipe));
    Json entry{{"reason", printable(item.verdict.reason)},
               {"recipe", recipe->second},
               {"device", printable(item.device)},
               {"replay", printable(replay_command(record, item))},
               {"outputs", Json::array()}};
    if (!item.capsule.empty()) entry["capsule"] = printable(item.capsule);
    if (item.shrunk_from) entry["shrunk_from"] = printable(item.shrunk_from->to_string());
    for (const OutputNumerics& output : item.verdict.outputs) entry["outputs"].push_back(detail_row(output));
    json["cases"].push_back(std::move(entry));
  }
  return embedded_json(json);
}

}  // namespace assay
