// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "kernels/core/json.h"
#include "reports/render/changes.h"

namespace assay {

std::string changes_json(const Changes& changes) {
  Json json;
  json["schema"] = "assay.changes/1";
  json["headline"] = render_headline(changes);
  json["limits"] = {{"slower", changes.limits.slower},
                    {"more_wrong", changes.limits.more_wrong},
                    {"calibrated", changes.limits.noise.runs}};
  json["runs_before"] = changes.runs_before;
  json["runs_after"] = changes.runs_after;
  json["chance_of_slower"] = chance_of_slower(changes);
  json["differences"] = Json::array();
  for (const std::string& difference : changes.differences) json["differences"].push_back(difference);
  json["times"] = Json::array();
  for (const TimeChange& time : changes.times) {
    Json& one = json["times"].emplace_back();
    one["id"] = time.which.to_string();
    one["device"] = time.device;
    one["cache"] = name_of(time.cache);
    one["change"] = name_of(time.change);
    put_number(one, "before_ns", time.before_ns);
    put_number(one, "after_ns", time.after_ns);
    put_number(one, "ratio", time.ratio);
    put_number(one, "low", time.low);
    put_number(one, "high", time.high);
    one["limit"] = time.limit;
    if (!time.reason.empty()) one["reason"] = time.reason;
  }
  json["errors"] = Json::array();
  for (const ErrorChange& error : changes.errors) {
    Json& one = json["errors"].emplace_back();
    one["op"] = error.op;
    one["path"] = error.path;
    one["dtype"] = name_of(error.dtype);
    one["device"] = error.device;
    one["change"] = name_of(error.change);
    one["cases"] = error.cases;
    put_number(one, "before", error.before);
    put_number(one, "after", error.after);
    put_number(one, "ratio", error.ratio);
    put_number(one, "accuracy", error.accuracy);
    put_number(one, "exact", error.exact);
    put_number(one, "growth", error.growth);
    put_number(one, "error_over_bound_before", error.worst_before);
    put_number(one, "error_over_bound_after", error.worst_after);
    if (error.grown) one["grown"] = error.grown->to_string();
  }
  json["failures"] = Json::array();
  for (const FailureChange& failure : changes.failures) {
    Json& one = json["failures"].emplace_back();
    one["id"] = failure.which.to_string();
    one["device"] = failure.device;
    one["verdict"] = name_of(failure.after);
    one["reason"] = failure.reason;
    one["before"] = failure.before ? Json(name_of(*failure.before)) : Json(nullptr);
    one["is_new"] = failure.is_new();
  }
  json["gone"] = Json::array();
  for (const Gone& one : changes.gone) {
    json["gone"].push_back({{"what", one.what}, {"reason", one.reason}});
  }
  json["shared"] = changes.shared;
  json["added"] = changes.added;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace assay
