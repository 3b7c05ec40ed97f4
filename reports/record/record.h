// SPDX-License-Identifier: Apache-2.0
// The record: what one run leaves. Everything readable is rendered from it. Schema:
// reports/schema/assay.run-1.schema.json.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/core/ceilings.h"
#include "bench/core/measure.h"
#include "properties/core/case.h"
#include "properties/core/verdict.h"

namespace assay {

class JsonFields;

struct DeviceRecord {
  DeviceInfo info;
  std::optional<Ceilings> ceilings;         // absent if nothing was timed on it
  std::string no_ceilings = {};             // why they could not be measured, if that was tried
  std::optional<DeviceState> state = {};    // before that
  std::optional<Telemetry> telemetry = {};  // meanwhile
};

// What disturbed times.
struct Disturbance {
  std::string kind;  // "build", "sanitizers", "load", "governor", "device"
  std::string text;  // "other work is running: 1.9 of 2 hardware threads are busy"
};

// What a machine was like when its times were taken.
struct Conditions {
  double load = 0;      // [1] average over the minute before
  int64_t threads = 0;  // that the process may run on
  std::vector<Disturbance> disturbances = {};
};

// Ceilings once more, just before and just after the times of a path.
struct Sentinel {
  std::string op, path, device;
  Ceilings before, after;
};

struct MachineRecord {
  std::string host_os;       // "Debian GNU/Linux 12 (bookworm), kernel 6.1"
  std::string host_name;     // empty if it stays private
  int64_t memory_bytes = 0;  // [bytes]
  std::vector<DeviceRecord> devices;
};

struct ToolRecord {
  std::string version;
  std::string git;       // commit; "unknown" outside a checkout
  bool dirty = false;    // built from a checkout with uncommitted changes
  std::string compiler;  // "GNU 12.2.0", and nvcc's version if CUDA is built
  std::string build;     // "Release"
};

struct CaseRecord {
  Case which;
  std::string device;  // "cpu", "cuda:0"
  Verdict verdict;
  std::optional<Case> shrunk_from;
  std::optional<Perf> perf;  // cold; absent unless the case passed and was timed
  std::optional<Perf> perf_warm;
  std::string no_perf;                 // why perf is absent: "not timed", "the verdict is fail"
  std::optional<double> seconds = {};  // [s] that judging, shrinking and timing took
  std::string capsule = {};            // of a failure: its file, from the folder of the record
  // Its number in the whole run, of which a shard has a part. A drawn case is counted among those
  // of its path, a timed problem among all that are timed.
  std::optional<int64_t> drawn = {}, problem = {};
};

// A path that was not judged, because its device is absent or an option excludes it.
struct NotRun {
  std::string op;
  std::string path;
  std::string reason;
};

// A known-bad implementation that is to be caught. It is caught by the first of its cases that
// fails or crashes.
struct SpecimenRecord {
  std::string op;
  std::string path;
  std::string fault;  // "the first tap is dropped"
};

// The files that `judge` judged.
struct GivenFiles {
  std::string in;  // empty if the inputs were those that `draw` writes
  std::string got;
};

struct Record {
  bool complete = false;  // stays false if the run was interrupted
  std::string started;    // ISO 8601, UTC
  double seconds = 0;     // [s] wall time
  std::vector<std::string> command;
  uint64_t seed = 0;
  MachineRecord machine;
  ToolRecord tool;
  std::vector<CaseRecord> cases;
  std::vector<NotRun> not_run;
  std::optional<int64_t> planned = {};         // cases; absent if time decides how many
  std::optional<Case> running = {};            // the case in which an incomplete run ended
  std::vector<SpecimenRecord> specimens = {};  // of `verify --specimens`: what the cases judge
  std::optional<GivenFiles> given = {};        // of `judge`
  std::optional<Conditions> conditions = {};   // absent if nothing was timed
  std::vector<Sentinel> sentinels = {};        // of the paths that were timed
  std::string timeout = {};                    // --timeout as it was typed
  // What selects, draws and judges the cases, as it was typed: "command", "FILTER", "--shard", ...
  std::map<std::string, std::string> options = {};
};

// Keys keep their order, so that a record begins with what it is.
using Json = nlohmann::ordered_json;

// JSON of the schema assay.run/1. A number that is not finite is left out; the object
// `nonfinite_fields` beside it lists its name and kind. Throws Error (internal) if a case that did
// not pass has a time.
Json to_json(const Record& record);
// Throws Error (usage) for a foreign, newer or damaged document. The message starts with `source`
// and names the field.
Record record_from_json(const Json& json, std::string_view source = "the record");

// The same for parts of a record, which a journal or a study holds.
Json to_json(const CaseRecord& item);
Json to_json(const DeviceRecord& device);
Json to_json(const MachineRecord& machine);
Json to_json(const ToolRecord& tool);
Json to_json(const NotRun& path);
Json to_json(const Conditions& conditions);
Json to_json(const Sentinel& sentinel);
CaseRecord read_case(const JsonFields& fields);
Case read_case_line(const JsonFields& fields, std::string_view key);
DeviceRecord read_device(const JsonFields& fields);
MachineRecord read_machine(const JsonFields& fields);
ToolRecord read_tool(const JsonFields& fields);
NotRun read_not_run(const JsonFields& fields);
Conditions read_conditions(const JsonFields& fields);
Sentinel read_sentinel(const JsonFields& fields);

// JSON on one line. A reason may quote bytes that are not UTF-8. They become U+FFFD.
std::string one_line(const Json& json);

// The contents of run.json, and back.
std::string record_text(const Record& record);
Record parse_record(std::string_view text, std::string_view source);

}  // namespace assay
