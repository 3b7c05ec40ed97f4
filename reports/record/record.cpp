// SPDX-License-Identifier: Apache-2.0
#include "reports/record/record.h"

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/core/json.h"
#include "reports/record/tally.h"
#include "reports/record/telemetry_json.h"

namespace assay {
namespace {

constexpr std::string_view kSchemaName = "assay.run/";
constexpr std::string_view kRunSchema = "assay.run/1";

constexpr std::array kVerdicts{
    VerdictKind::kPass,        VerdictKind::kFail,    VerdictKind::kMistrusted, VerdictKind::kUninformative,
    VerdictKind::kUnsupported, VerdictKind::kCrashed, VerdictKind::kTimeout,    VerdictKind::kSkipped};
constexpr std::array kKnownCaches{Cache::kCold, Cache::kWarm};
constexpr std::array kLimits{FloorPart::Limit::kLaunch, FloorPart::Limit::kBytes, FloorPart::Limit::kFlops};

// ---- numerics

Json to_json(const WorstElement& worst) {
  Json json{{"index", worst.element}};
  put_number(json, "got", worst.got);
  put_number(json, "want", worst.want);
  put_number(json, "bound", worst.bound);
  return json;
}

// The numbers that reports quote come first. They are computed from `sums`, and so are merges of
// shards.
Json to_json(const OutputNumerics& output) {
  const Comparison& seen = output.comparison;
  Json json{{"name", output.name},
            {"count", seen.count},
            {"elements", output.elements},
            {"wrong", seen.wrong},
            {"nonfinite", seen.nonfinite}};
  if (seen.open > 0) json["open"] = seen.open;
  if (seen.equal) json["equal"] = *seen.equal;
  put_number(json, "max_error_over_bound", seen.max_error_over_bound);
  if (output.conformity) {
    Json& conformity = json["conformity"];
    put_number(conformity, "rms", output.conformity->rms);
    put_number(conformity, "predicted", output.conformity->predicted);
    put_number(conformity, "allowed", output.conformity->allowed);
    put_number(conformity, "largest", output.conformity->largest);
    conformity["doubts"] = output.conformity->doubts;
    conformity["count"] = output.conformity->count;
    conformity["rows"] = output.conformity->rows;
    conformity["farthest"] = output.conformity->farthest;
    conformity["is_law"] = output.obeys_rms_law;
  }
  put_number(json, "max_ulp", seen.max_ulp);
  if (const auto normwise = seen.rel_l2()) put_number(json, "rel_l2", *normwise);
  put_number(json, "max_abs", seen.max_abs);
  put_number(json, "bias", seen.bias());
  put_number(json, "rms", seen.rms());
  if (seen.worst) json["worst"] = to_json(*seen.worst);
  Json& sums = json["sums"];
  sums["finite"] = seen.finite;
  put_number(sums, "error", seen.sum_error);
  put_number(sums, "square_error", seen.sum_square_error);
  put_number(sums, "square_value", seen.sum_square_value);
  for (const Share& share : output.shares) {
    Json& to = json["shares"].emplace_back(Json{{"stage", share.stage}});
    put_number(to, "bound", share.bound);
    put_number(to, "rms", share.rms);
  }
  return json;
}

OutputNumerics read_output(const JsonFields& fields) {
  OutputNumerics output;
  output.name = fields.text("name");
  output.elements = fields.count("elements");
  if (fields.has("conformity")) {
    const JsonFields conformity = fields.object("conformity");
    output.conformity = Conformity{.rms = conformity.number("rms"),
                                   .predicted = conformity.number("predicted"),
                                   .allowed = conformity.number("allowed"),
                                   .largest = conformity.number("largest"),
                                   .count = conformity.count("count"),
                                   .doubts = conformity.count("doubts"),
                                   .rows = conformity.count("rows"),
                                   .farthest = conformity.count("farthest")};
    output.obeys_rms_law = conformity.flag("is_law");
  }
  Comparison& seen = output.comparison;
  seen.count = fields.count("count");
  seen.wrong = fields.count("wrong");
  seen.nonfinite = fields.count("nonfinite");
  if (fields.has("open")) seen.open = fields.count("open");
  seen.equal = fields.has("equal") ? std::optional(fields.count("equal")) : std::nullopt;
  seen.max_error_over_bound = fields.number("max_error_over_bound");
  seen.max_ulp = fields.number("max_ulp");
  seen.max_abs = fields.number("max_abs");
  if (fields.has("worst")) {
    const JsonFields worst = fields.object("worst");
    seen.worst = WorstElement{.element = worst.count("index"),
                              .got = worst.number("got"),
                              .want = worst.number("want"),
                              .bound = worst.number("bound")};
  }
  const JsonFields sums = fields.object("sums");
  seen.finite = sums.count("finite");
  seen.sum_error = sums.number("error");
  seen.sum_square_error = sums.number("square_error");
  seen.sum_square_value = sums.number("square_value");
  if (fields.has("shares")) {
    for (const JsonFields& share : fields.objects("shares"))
      output.shares.push_back({share.text("stage"), share.number("bound"), share.number("rms")});
  }
  return output;
}

// ---- times

Json to_json(const OtherTimes& times, std::string_view key_of_what) {
  Json json{{key_of_what, times.what}};
  put_number(json, "median_ns", times.median_ns);
  put_numbers(json, "ci95_ns", times.ci95_ns);
  put_numbers(json, "samples_ns", times.samples_ns);
  return json;
}

Json to_json(const Perf& perf) {
  Json json{{"cache", name_of(perf.cache)}, {"timer", perf.timer}};
  put_number(json, "median_ns", perf.median_ns);
  put_numbers(json, "ci95_ns", perf.ci95_ns);
  json["bytes"] = perf.bytes;
  json["flops"] = perf.flops;
  put_number(json, "floor_ns", perf.floor_ns);
  put_number(json, "fraction_of_floor", perf.fraction_of_floor);
  for (const FloorPart& part : perf.floor_parts) {
    Json& to = json["floor_parts"].emplace_back(Json{{"name", part.name}, {"limit", name_of(part.limit)}});
    put_number(to, "ns", part.ns);
    to["bytes"] = part.bytes;
    to["flops"] = part.flops;
  }
  if (perf.implausible) json["implausible"] = *perf.implausible;
  put_number(json, "waits_ns", perf.waits_ns);
  if (perf.telemetry) json["telemetry"] = assay::to_json(*perf.telemetry);
  put_numbers(json, "samples_ns", perf.samples_ns);
  if (perf.draws) json["draws"] = *perf.draws;
  if (perf.other) json["other"] = to_json(*perf.other, "data");
  if (perf.near) json["near"] = to_json(*perf.near, "case");
  if (perf.graph) {
    put_number(json["graph"], "median_ns", perf.graph->median_ns);
    put_numbers(json["graph"], "samples_ns", perf.graph->samples_ns);
  }
  return json;
}

void read_interval(const JsonFields& fields, double (&interval)[2]) {
  const std::vector<double> ends = fields.numbers("ci95_ns");
  if (ends.size() != 2) throw fields.error("ci95_ns", "has {} numbers, expected 2", ends.size());
  std::ranges::copy(ends, interval);
}

OtherTimes read_other_times(const JsonFields& fields, std::string_view key_of_what) {
  OtherTimes times{.what = fields.text(key_of_what),
                   .samples_ns = fields.numbers("samples_ns"),
                   .median_ns = fields.number("median_ns")};
  read_interval(fields, times.ci95_ns);
  return times;
}

Perf read_perf(const JsonFields& fields) {
  Perf perf;
  perf.cache = fields.one_of("cache", kKnownCaches);
  perf.timer = fields.text("timer");
  perf.samples_ns = fields.numbers("samples_ns");
  perf.median_ns = fields.number("median_ns");
  read_interval(fields, perf.ci95_ns);
  perf.bytes = fields.count("bytes");
  perf.flops = fields.count("flops");
  if (fields.has_number("floor_ns")) perf.floor_ns = fields.number("floor_ns");
  if (fields.has_number("fraction_of_floor")) perf.fraction_of_floor = fields.number("fraction_of_floor");
  if (fields.has("floor_parts")) {
    for (const JsonFields& part : fields.objects("floor_parts"))
      perf.floor_parts.push_back({.name = part.text("name"),
                                  .limit = part.one_of("limit", kLimits),
                                  .ns = part.number("ns"),
                                  .bytes = part.count("bytes"),
                                  .flops = part.count("flops")});
  }
  if (fields.has("implausible")) perf.implausible = fields.text("implausible");
  if (fields.has("waits_ns")) perf.waits_ns = fields.number("waits_ns");
  if (fields.has("draws")) perf.draws = fields.integer<uint64_t>("draws");
  if (fields.has("other")) perf.other = read_other_times(fields.object("other"), "data");
  if (fields.has("near")) perf.near = read_other_times(fields.object("near"), "case");
  if (fields.has("graph")) {
    const JsonFields graph = fields.object("graph");
    perf.graph =
        GraphTimes{.samples_ns = graph.numbers("samples_ns"), .median_ns = graph.number("median_ns")};
  }
  if (fields.has("telemetry")) perf.telemetry = read_telemetry(fields.object("telemetry"));
  return perf;
}

// ---- cases

}  // namespace

Json to_json(const CaseRecord& item) {
  if (item.verdict.kind != VerdictKind::kPass && (item.perf || item.perf_warm)) {
    throw Error("the case '{}' carries a time though its verdict is {}", item.which.to_string(),
                name_of(item.verdict.kind));
  }
  Json json{{"id", item.which.to_string()},  {"op", item.which.op},
            {"path", item.which.path},       {"dtype", name_of(item.which.dtype)},
            {"device", item.device},         {"state", item.which.state.to_string()},
            {"recipe", item.verdict.recipe}, {"verdict", name_of(item.verdict.kind)},
            {"reason", item.verdict.reason}};
  if (item.verdict.fails_alone) json["fails_alone"] = *item.verdict.fails_alone;
  if (item.shrunk_from) json["shrunk_from"] = item.shrunk_from->to_string();
  Json& outputs = json["numerics"]["outputs"] = Json::array();
  for (const OutputNumerics& output : item.verdict.outputs) outputs.push_back(to_json(output));
  json["perf"] = item.perf ? to_json(*item.perf) : Json();
  json["perf_warm"] = item.perf_warm ? to_json(*item.perf_warm) : Json();
  if (!item.perf) json["no_perf"] = item.no_perf;
  if (item.seconds) put_number(json, "seconds", *item.seconds);
  if (!item.capsule.empty()) json["capsule"] = item.capsule;
  if (item.drawn) json["drawn"] = *item.drawn;
  if (item.problem) json["problem"] = *item.problem;
  return json;
}

Case read_case_line(const JsonFields& fields, std::string_view key) {
  try {
    return parse_case(fields.text(key));
  } catch (const Error& error) {
    throw fields.error(key, "is not a case: {}", error.what());
  }
}

CaseRecord read_case(const JsonFields& fields) {
  CaseRecord item;
  item.which = read_case_line(fields, "id");
  item.device = fields.text("device");
  item.verdict.recipe = fields.text("recipe");
  item.verdict.kind = fields.one_of("verdict", kVerdicts);
  item.verdict.reason = fields.text("reason");
  if (fields.has("fails_alone")) item.verdict.fails_alone = fields.flag("fails_alone");
  for (const JsonFields& output : fields.object("numerics").objects("outputs")) {
    item.verdict.outputs.push_back(read_output(output));
  }
  if (fields.has("shrunk_from")) item.shrunk_from = read_case_line(fields, "shrunk_from");
  if (fields.has("perf")) item.perf = read_perf(fields.object("perf"));
  if (fields.has("perf_warm")) item.perf_warm = read_perf(fields.object("perf_warm"));
  if (fields.has("no_perf")) item.no_perf = fields.text("no_perf");
  if (fields.has_number("seconds")) item.seconds = fields.number("seconds");
  if (fields.has("capsule")) item.capsule = fields.text("capsule");
  if (fields.has("drawn")) item.drawn = fields.count("drawn");
  if (fields.has("problem")) item.problem = fields.count("problem");
  if (item.verdict.kind != VerdictKind::kPass && (item.perf || item.perf_warm)) {
    throw fields.error("perf", "is there, though the verdict is {}", name_of(item.verdict.kind));
  }
  return item;
}

Json to_json(const NotRun& path) {
  return {{"op", path.op}, {"path", path.path}, {"reason", path.reason}};
}

NotRun read_not_run(const JsonFields& fields) {
  return {fields.text("op"), fields.text("path"), fields.text("reason")};
}

Json to_json(const Record& record) {
  Json json{{"schema", kRunSchema},         {"complete", record.complete},       {"started", record.started},
            {"command", record.command},    {"options", Json(record.options)},   {"seed", record.seed},
            {"tool", to_json(record.tool)}, {"machine", to_json(record.machine)}};
  put_number(json, "seconds", record.seconds);
  if (record.planned) json["planned"] = *record.planned;
  if (record.running) json["running"] = record.running->to_string();
  for (const auto& [specimen, cases, caught, seconds] : summarize_specimens(record)) {
    json["specimens"].push_back({{"op", specimen->op},
                                 {"path", specimen->path},
                                 {"fault", specimen->fault},
                                 {"cases", cases},
                                 {"caught", caught != nullptr}});
  }
  if (record.given) json["given"] = {{"in", record.given->in}, {"got", record.given->got}};
  if (!record.timeout.empty()) json["timeout"] = record.timeout;
  if (record.conditions) json["conditions"] = to_json(*record.conditions);
  for (const Sentinel& sentinel : record.sentinels) json["sentinels"].push_back(to_json(sentinel));
  json["not_run"] = Json::array();
  for (const NotRun& path : record.not_run) json["not_run"].push_back(to_json(path));
  json["cases"] = Json::array();
  for (const CaseRecord& item : record.cases) json["cases"].push_back(to_json(item));
  return json;
}

Record record_from_json(const Json& json, std::string_view source) {
  const JsonFields fields(json, source);
  if (!json.is_object() || !fields.has("schema")) {
    throw usage_error("{}: not a record of assay: it has no field 'schema'", excerpt(source));
  }
  const std::string schema = fields.text("schema");
  if (schema != kRunSchema) {
    throw usage_error("{}: the schema is '{}'{}; this program reads {}", excerpt(source), excerpt(schema),
                      schema.starts_with(kSchemaName) ? ", of another version of assay" : "", kRunSchema);
  }
  Record record;
  record.complete = fields.flag("complete");
  record.started = fields.text("started");
  record.seconds = fields.number("seconds");
  record.command = fields.texts("command");
  if (fields.has("options")) {
    const JsonFields options = fields.object("options");
    for (const auto& [name, text] : json["options"].items()) record.options[name] = options.text(name);
  }
  record.seed = fields.integer<uint64_t>("seed");
  record.machine = read_machine(fields.object("machine"));
  record.tool = read_tool(fields.object("tool"));
  for (const JsonFields& item : fields.objects("cases")) record.cases.push_back(read_case(item));
  for (const JsonFields& path : fields.objects("not_run")) record.not_run.push_back(read_not_run(path));
  if (fields.has("planned")) record.planned = fields.integer<int64_t>("planned");
  if (fields.has("running")) record.running = read_case_line(fields, "running");
  if (fields.has("specimens")) {
    for (const JsonFields& specimen : fields.objects("specimens"))
      record.specimens.push_back({specimen.text("op"), specimen.text("path"), specimen.text("fault")});
  }
  if (fields.has("given")) {
    const JsonFields given = fields.object("given");
    record.given = GivenFiles{.in = given.text("in"), .got = given.text("got")};
  }
  if (fields.has("timeout")) record.timeout = fields.text("timeout");
  if (fields.has("conditions")) record.conditions = read_conditions(fields.object("conditions"));
  if (fields.has("sentinels")) {
    for (const JsonFields& sentinel : fields.objects("sentinels"))
      record.sentinels.push_back(read_sentinel(sentinel));
  }
  return record;
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Each field and each case has a line of its own, for text tools.
std::string record_text(const Record& record) {
  const Json json = to_json(record);
  std::string text;
  for (const auto& [key, value] : json.items()) {
    text += fmt::format("{}\"{}\": ", text.empty() ? "{\n" : ",\n", key);
    if (key != "cases") {
      text += one_line(value);
      continue;
    }
    text += "[";
    for (size_t i = 0; i < value.size(); ++i) text += (i == 0 ? "\n" : ",\n") + one_line(value[i]);
    text += "\n]";
  }
  return text + "\n}\n";
}

Record parse_record(std::string_view text, std::string_view source) {
  return record_from_json(parse_json(text, source), source);
}

}  // namespace assay
