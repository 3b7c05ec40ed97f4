// SPDX-License-Identifier: Apache-2.0
#include "reports/record/study_json.h"

#include <array>

#include "kernels/core/json.h"

namespace assay {
namespace {

using namespace study;

constexpr const char* kStudySchema = "assay.study/1";
constexpr std::array kKinds{Axis::Kind::kDim, Axis::Kind::kProperty, Axis::Kind::kData};
constexpr std::array kDTypes{DType::kF32, DType::kF16, DType::kBF16, DType::kF64};

std::optional<double> number_if(const JsonFields& fields, std::string_view key) {
  return fields.has_number(key) ? std::optional(fields.number(key)) : std::nullopt;
}

// The members of Errors that may be absent.
struct Member {
  const char* key;
  std::optional<double> Errors::*of;
};
constexpr std::array kMembers{Member{"normwise", &Errors::normwise},
                              Member{"worst", &Errors::worst},
                              Member{"worst_p999", &Errors::worst_p999},
                              Member{"componentwise", &Errors::componentwise},
                              Member{"componentwise_p999", &Errors::componentwise_p999},
                              Member{"over_terms", &Errors::over_terms},
                              Member{"mean", &Errors::mean},
                              Member{"mean_outward", &Errors::mean_outward},
                              Member{"over_best", &Errors::over_best},
                              Member{"over_input_rounding", &Errors::over_input_rounding}};

Json json_of(const Axis& axis) {
  Json json{{"name", axis.name}, {"kind", name_of(axis.kind)}, {"values", Json::array()}};
  for (const AxisValue& value : axis.values) {
    Json one{{"text", value.text}};
    put_number(one, "number", value.number);
    json["values"].push_back(std::move(one));
  }
  return json;
}

Axis axis_from(const JsonFields& fields) {
  Axis axis{.name = fields.text("name"), .kind = fields.one_of("kind", kKinds)};
  for (const JsonFields& value : fields.objects("values"))
    axis.values.push_back({value.text("text"), number_if(value, "number")});
  if (axis.values.empty()) throw fields.error("values", "is empty");
  if (axis.is_numeric() && std::ranges::any_of(axis.values, [](const auto& v) { return !v.number; }))
    throw fields.error("values", "lacks a number");
  return axis;
}

Json findings_json(const Study& study) {
  const std::vector<Summary> summaries = summarize(study);
  const Answer answer = answer_of(study, summaries);
  Json json{{"answer", answer.sentence}, {"grounds", answer.grounds}};
  if (const auto point = deciding_point(study, summaries)) json["point"] = *point;
  json["summaries"] = Json::array();
  for (const Summary& summary : summaries) {
    Json one{{"contender", summary.contender}, {"points", Json::array()}};
    for (const PointSummary& point : summary.points) {
      Json at{{"point", point.point}, {"draws", point.draws}, {"standing", name_of(point.standing)}};
      if (!point.why_not.empty()) at["why_not"] = point.why_not;
      if (point.draws > 0) {
        at["above"] = point.above;
        put_number(at, "median", point.median);
        put_number(at, "largest", point.largest);
        put_number(at, "worst_largest", point.worst_largest);
      }
      if (point.digits) put_numbers(at, "digits95", std::array{point.digits->low, point.digits->high});
      put_number(at, "bias", point.bias);
      put_number(at, "bias_outward", point.bias_outward);
      one["points"].push_back(std::move(at));
    }
    json["summaries"].push_back(std::move(one));
  }
  json["fits"] = Json::array();
  for (const Fit& fit : fits(study)) {
    Json one{{"contender", fit.contender}, {"axis", fit.axis}, {"reading", fit.reading}};
    put_number(one, "exponent", fit.exponent.value);
    put_numbers(one, "interval", std::array{fit.exponent.interval.low, fit.exponent.interval.high});
    json["fits"].push_back(std::move(one));
  }
  json["onsets"] = Json::array();
  for (const Onset& onset : onsets(study, summaries)) {
    Json one{{"contender", onset.contender}, {"axis", onset.axis}, {"standing", name_of(onset.standing)}};
    if (onset.value) one["value"] = study.axes[onset.axis].values[*onset.value].text;
    json["onsets"].push_back(std::move(one));
  }
  return json;
}

template <class Items>
Json list_of(const Items& items) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(assay::to_json(item));
  return list;
}

}  // namespace

Json to_json(const Cell& cell) {
  Json json{
      {"point", cell.point}, {"contender", cell.contender}, {"output", cell.output}, {"draw", cell.draw}};
  if (!cell.why_not.empty()) {
    json["why_not"] = cell.why_not;
    return json;
  }
  json["elements"] = cell.errors.elements;
  json["nonfinite"] = cell.errors.nonfinite;
  json["outside"] = cell.errors.outside;
  for (const auto& [key, member] : kMembers) put_number(json, key, cell.errors.*member);
  if (cell.repeats) json["repeats"] = *cell.repeats;
  if (cell.alone) json["alone"] = *cell.alone;
  return json;
}

Json to_json(const Time& time) {
  Json one{{"point", time.point},
           {"contender", time.contender},
           {"verdict", time.verdict},
           {"reason", time.reason}};
  put_number(one, "median_ns", time.median_ns);
  if (time.low_ns && time.high_ns) put_numbers(one, "rounds_ns", std::array{*time.low_ns, *time.high_ns});
  put_number(one, "floor_ns", time.floor_ns);
  if (!time.implausible.empty()) one["implausible"] = time.implausible;
  put_number(one, "power_w", time.power_w);
  return one;
}

Json to_json(const SiteShare& share) {
  Json one{
      {"point", share.point}, {"contender", share.contender}, {"output", share.output}, {"site", share.site}};
  put_number(one, "alone", share.alone);
  put_number(one, "without", share.without);
  put_number(one, "all", share.all);
  return one;
}

Json to_json(const Distances& distances) {
  Json one{{"point", distances.point}, {"contender", distances.contender}, {"output", distances.output}};
  put_numbers(one, "from_computed", distances.from_computed);
  put_numbers(one, "from_exact", distances.from_exact);
  return one;
}

namespace {

// An index into a list of this size.
size_t index_in(const JsonFields& fields, std::string_view key, size_t size) {
  const auto index = fields.count<int64_t>(key);
  if (index >= static_cast<int64_t>(size)) throw fields.error(key, "is {}, of {}", index, size);
  return static_cast<size_t>(index);
}

Cell cell_from(const JsonFields& fields, const Study& study) {
  Cell cell{.point = index_in(fields, "point", study.points.size()),
            .contender = index_in(fields, "contender", study.contenders.size()),
            .output = index_in(fields, "output", study.outputs.size()),
            .draw = static_cast<int64_t>(index_in(fields, "draw", static_cast<size_t>(study.draws))),
            .errors = {}};
  if (fields.has("why_not")) {
    cell.why_not = fields.text("why_not");
    return cell;
  }
  cell.errors.elements = fields.count("elements");
  cell.errors.nonfinite = fields.count("nonfinite");
  cell.errors.outside = fields.count("outside");
  for (const auto& [key, member] : kMembers) cell.errors.*member = number_if(fields, key);
  if (fields.has("repeats")) cell.repeats = fields.flag("repeats");
  if (fields.has("alone")) cell.alone = fields.flag("alone");
  return cell;
}

}  // namespace

Json to_json(const StudyRecord& record) {
  const Study& study = record.study;
  Json json{{"schema", kStudySchema},
            {"complete", study.complete},
            {"started", record.origin.started},
            {"command", record.origin.command},
            {"seed", study.seed},
            {"tool", to_json(record.origin.tool)},
            {"machine", to_json(record.origin.machine)}};
  if (record.origin.conditions) json["conditions"] = to_json(*record.origin.conditions);
  put_number(json, "seconds", record.origin.seconds);
  json["op"] = study.op;
  json["outputs"] = study.outputs;
  json["dims"] = Json::object();
  for (const auto& [key, value] : study.dims.values()) json["dims"][key] = value;
  json["draws"] = study.draws;
  json["shard"] = {{"number", study.shard + 1}, {"count", study.shards}};
  json["target"] = {{"normwise", study.target.normwise}};
  put_number(json["target"], "worst", study.target.worst);
  if (!study.inputs.empty()) json["inputs"] = study.inputs;
  json["axes"] = Json::array();
  for (const Axis& axis : study.axes) json["axes"].push_back(json_of(axis));
  json["points"] = study.points;
  json["contenders"] = Json::array();
  for (size_t i = 0; i < study.contenders.size(); ++i) {
    json["contenders"].push_back({{"name", study.contenders[i].name},
                                  {"dtype", name_of(study.contenders[i].dtype)},
                                  {"emulated", bool{study.emulated[i]}},
                                  {"recipe", study.recipes[i]}});
  }
  json["findings"] = findings_json(study);
  json["times"] = list_of(study.times);
  json["sites"] = list_of(study.sites);
  json["distances"] = list_of(study.distances);
  json["cells"] = list_of(study.cells);
  return json;
}

std::string study_text(const StudyRecord& record) {
  const Json json = to_json(record);
  // One line for each field, and one for each cell.
  std::string text = "{";
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("{}\n {}: ", text.size() > 1 ? "," : "", one_line(Json(key)));
    if (key != "cells" || value.empty()) {
      text += one_line(value);
      continue;
    }
    text += "[";
    for (size_t i = 0; i < value.size(); ++i)
      text += fmt::format("{}\n  {}", i > 0 ? "," : "", one_line(value[i]));
    text += "]";
  }
  return text + "\n}\n";
}

StudyRecord parse_study(std::string_view text, std::string_view source) {
  return study_from_json(parse_json(text, source), source);
}

StudyRecord study_from_json(const Json& json, std::string_view source) {
  const JsonFields fields(json, source);
  if (!json.is_object() || !fields.has("schema") || fields.text("schema") != kStudySchema)
    throw usage_error("{}: not a study of assay: its schema is not {}", excerpt(source), kStudySchema);
  StudyRecord record{.origin = {.started = fields.text("started"),
                                .seconds = fields.number("seconds"),
                                .command = fields.texts("command"),
                                .tool = read_tool(fields.object("tool")),
                                .machine = read_machine(fields.object("machine"))},
                     .study = {}};
  if (fields.has("conditions")) record.origin.conditions = read_conditions(fields.object("conditions"));
  Study& study = record.study;
  study.op = fields.text("op");
  study.outputs = fields.texts("outputs");
  for (const auto& [key, value] : json["dims"].items()) study.dims.set(key, fields.object("dims").count(key));
  study.draws = fields.count("draws");
  study.seed = fields.integer<uint64_t>("seed");
  study.complete = fields.flag("complete");
  const JsonFields shard = fields.object("shard"), target = fields.object("target");
  study.shards = shard.count("count");
  study.shard = shard.count("number") - 1;
  if (study.shard < 0 || study.shard >= study.shards)
    throw shard.error("number", "is {}, of {}", study.shard + 1, study.shards);
  study.target = {.normwise = target.number("normwise"), .worst = number_if(target, "worst")};
  for (const JsonFields& axis : fields.objects("axes")) study.axes.push_back(axis_from(axis));
  study.points = points_of(study.axes);
  const Json& points = json["points"];
  if (points != Json(study.points)) throw fields.error("points", "are not those of the axes");
  if (fields.has("inputs")) study.inputs = fields.text("inputs");
  for (const JsonFields& one : fields.objects("contenders")) {
    study.contenders.push_back({.name = one.text("name"), .dtype = one.one_of("dtype", kDTypes)});
    study.emulated.push_back(one.flag("emulated"));
    study.recipes.push_back(one.text("recipe"));
  }
  const auto contender_of = [&](const JsonFields& one) {
    return index_in(one, "contender", study.contenders.size());
  };
  const auto output_of = [&](const JsonFields& one) { return index_in(one, "output", study.outputs.size()); };
  // Older records have sites and distances of the first point.
  const auto point_of = [&](const JsonFields& one) {
    return one.has("point") ? index_in(one, "point", study.points.size()) : 0;
  };
  for (const JsonFields& one : fields.objects("times")) {
    Time time{.point = index_in(one, "point", study.points.size()),
              .contender = contender_of(one),
              .verdict = one.text("verdict"),
              .reason = one.text("reason"),
              .median_ns = number_if(one, "median_ns"),
              .low_ns = {},
              .high_ns = {},
              .floor_ns = number_if(one, "floor_ns"),
              .power_w = number_if(one, "power_w")};
    if (one.has("implausible")) time.implausible = one.text("implausible");
    // Older records have an interval of one round.
    const char* const key = one.has("rounds_ns") ? "rounds_ns" : "ci95_ns";
    if (one.has(key)) {
      const std::vector<double> ends = one.numbers(key);
      if (ends.size() != 2) throw one.error(key, "has {} numbers", ends.size());
      time.low_ns = ends[0];
      time.high_ns = ends[1];
    }
    study.times.push_back(std::move(time));
  }
  for (const JsonFields& one : fields.objects("sites")) {
    study.sites.push_back({.point = point_of(one),
                           .contender = contender_of(one),
                           .output = output_of(one),
                           .site = one.text("site"),
                           .alone = one.number("alone"),
                           .without = one.number("without"),
                           .all = one.number("all")});
  }
  for (const JsonFields& one : fields.objects("distances"))
    study.distances.push_back({point_of(one), contender_of(one), output_of(one), one.numbers("from_computed"),
                               one.numbers("from_exact")});
  for (const JsonFields& one : fields.objects("cells")) study.cells.push_back(cell_from(one, study));
  return record;
}

}  // namespace assay
