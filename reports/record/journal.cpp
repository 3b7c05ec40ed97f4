// SPDX-License-Identifier: Apache-2.0
#include "reports/record/journal.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "kernels/core/json.h"

namespace assay {
namespace {

constexpr std::string_view kJournalSchema = "assay.journal/1";

std::string line_at(double at, std::string_view key, Json value) {
  return one_line(Json{{"at", at}, {key, std::move(value)}}) + "\n";
}

Json to_json(const Writer& writer) {
  return {{"pid", writer.pid}, {"started", writer.started}};
}

Writer read_writer(const JsonFields& fields) {
  return {.pid = fields.integer<int64_t>("pid"), .started = fields.text("started")};
}

std::string path_of(const Case& which, const std::string& device) {
  return fmt::format("{}/{} {}", which.op, which.path, device);
}

void replace_device(MachineRecord& machine, DeviceRecord device) {
  for (DeviceRecord& known : machine.devices) {
    if (known.info.name() == device.info.name()) known = std::move(device);
  }
}

class Fold {
 public:
  explicit Fold(std::string_view source) : source_(source) {}

  void head(const Json& line) {
    const JsonFields fields(line, source_);
    if (!line.is_object() || !fields.has("schema") || fields.text("schema") != kJournalSchema) {
      throw usage_error("{}: not a journal of assay: its first line has no schema {}", source_,
                        kJournalSchema);
    }
    fields.object("record");
    journal_.begun = line["record"];
    journal_.record = record_from_json(journal_.begun, source_);
    journal_.writer = read_writer(fields.object("writer"));
    fields.object("options");
    for (const auto& [name, value] : line["options"].items())
      journal_.options[name] = JsonFields(line["options"], source_, "options").text(name);
  }

  void line(const Json& line) {
    const JsonFields fields(line, source_);
    if (!line.is_object())
      throw usage_error("{}: a line is a {}, expected an object", source_, line.type_name());
    Record& record = journal_.record;
    record.seconds = fields.number("at");
    if (fields.has("running")) {
      record.running = read_case_line(fields, "running");
      spend(*record.running, fields.text("device"));
    } else if (fields.has("case")) {
      record.cases.push_back(read_case(fields.object("case")));
      record.running.reset();
      const auto& [which, device] = std::tie(record.cases.back().which, record.cases.back().device);
      spend(which, device);
      if (fields.has("timeouts"))
        journal_.timeouts[path_of(which, device)] += fields.integer<int>("timeouts");
    } else if (fields.has("device")) {
      replace_device(record.machine, read_device(fields.object("device")));
    } else if (fields.has("not_run")) {
      record.not_run.push_back(read_not_run(fields.object("not_run")));
    } else if (fields.has("conditions")) {
      add_conditions(record.conditions, read_conditions(fields.object("conditions")));
    } else if (fields.has("sentinel")) {
      record.sentinels.push_back(read_sentinel(fields.object("sentinel")));
    } else if (fields.has("resumed")) {
      journal_.writer = read_writer(fields.object("resumed"));
    } else {
      throw usage_error("{}: a line has none of the fields that this program knows", source_);
    }
  }

  Journal take(size_t bytes) {
    journal_.bytes = bytes;
    return std::move(journal_);
  }

 private:
  void spend(const Case& which, const std::string& device) {
    const std::string path = path_of(which, device);
    const double at = journal_.record.seconds;
    const double first = first_.emplace(path, at).first->second;
    journal_.spent[path] = at - first;
  }

  std::string_view source_;
  Journal journal_;
  std::map<std::string, double> first_;  // [s] when the first case of a path began
};

}  // namespace

void add_conditions(std::optional<Conditions>& known, Conditions more) {
  if (!known) {
    known = std::move(more);
    return;
  }
  known->load = std::max(known->load, more.load);
  for (Disturbance& one : more.disturbances) {
    if (std::ranges::count(known->disturbances, one.kind, &Disturbance::kind) == 0)
      known->disturbances.push_back(std::move(one));
  }
}

std::string head_line(const Record& begun, const std::map<std::string, std::string>& options,
                      const Writer& writer) {
  return one_line(Json{{"schema", kJournalSchema},
                       {"writer", to_json(writer)},
                       {"options", Json(options)},
                       {"record", to_json(begun)}}) +
         "\n";
}

std::string resumed_line(double at, const Writer& writer) {
  return line_at(at, "resumed", to_json(writer));
}

std::string running_line(double at, const Case& which, std::string_view device) {
  return one_line(Json{{"at", at}, {"running", which.to_string()}, {"device", device}}) + "\n";
}

std::string case_line(double at, const CaseRecord& item, int timeouts) {
  Json line{{"at", at}, {"case", to_json(item)}};
  if (timeouts > 0) line["timeouts"] = timeouts;
  return one_line(line) + "\n";
}

std::string device_line(double at, const DeviceRecord& device) {
  return line_at(at, "device", to_json(device));
}

std::string not_run_line(double at, const NotRun& path) {
  return line_at(at, "not_run", to_json(path));
}

std::string conditions_line(double at, const Conditions& conditions) {
  return line_at(at, "conditions", to_json(conditions));
}

std::string sentinel_line(double at, const Sentinel& sentinel) {
  return line_at(at, "sentinel", to_json(sentinel));
}

Journal read_journal(std::string_view text, std::string_view source) {
  Fold fold(source);
  size_t begin = 0;
  int64_t number = 0;
  for (size_t end = 0; (end = text.find('\n', begin)) != std::string_view::npos; begin = end + 1) {
    Json json;
    try {
      json = parse_json(text.substr(begin, end - begin), fmt::format("{}: line {}", source, number + 1));
    } catch (const Error&) {
      if (end + 1 == text.size()) break;  // torn
      throw;
    }
    ++number;
    if (number == 1) {
      fold.head(json);
    } else {
      fold.line(json);
    }
  }
  if (number == 0) throw usage_error("{}: the run ended before it began", source);
  return fold.take(begin);
}

}  // namespace assay
