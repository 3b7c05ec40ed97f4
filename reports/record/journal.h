// SPDX-License-Identifier: Apache-2.0
// The journal of a run: lines of JSON that are appended while it runs. Its record is folded from
// them. Schema: reports/schema/assay.journal-1.schema.json.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "reports/record/record.h"

namespace assay {

// The process that appends to a journal.
struct Writer {
  int64_t pid = 0;
  std::string started;  // ISO 8601, UTC
};

struct Journal {
  Record record;                               // not complete
  Json begun;                                  // the record as it was before the first case
  std::map<std::string, std::string> options;  // that select, draw and judge, as they were typed
  Writer writer;                               // the last one
  size_t bytes = 0;                            // up to the end of the last whole line
  std::map<std::string, double> spent;         // [s] on the cases of each path: "op/path device"
  std::map<std::string, int> timeouts;         // of each path, those while shrinking included
};

// The lines of a journal. `at` is in seconds since the run began, without the time between an
// interruption and its resumption.
std::string head_line(const Record& begun, const std::map<std::string, std::string>& options,
                      const Writer& writer);
std::string resumed_line(double at, const Writer& writer);
std::string running_line(double at, const Case& which, std::string_view device);
std::string case_line(double at, const CaseRecord& item, int timeouts = 0);
std::string device_line(double at, const DeviceRecord& device);  // replaces the device of its name
std::string not_run_line(double at, const NotRun& path);
std::string conditions_line(double at, const Conditions& conditions);  // adds to those before
std::string sentinel_line(double at, const Sentinel& sentinel);

// Adds the conditions of another part of a run: it has the disturbances of all its parts.
void add_conditions(std::optional<Conditions>& known, Conditions more);

// Folds a journal. Its last line may be cut short, and is ignored then. Throws Error (usage) for
// what is no journal or is damaged elsewhere.
Journal read_journal(std::string_view text, std::string_view source);

}  // namespace assay
