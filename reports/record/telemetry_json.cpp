// SPDX-License-Identifier: Apache-2.0
#include "reports/record/telemetry_json.h"

#include <nlohmann/json.hpp>

#include "kernels/core/json.h"

namespace assay {
namespace {

void put(Json& json, const char* key, const std::optional<double>& value) {
  put_number(json, key, value);
}
template <class Value>
void put(Json& json, const char* key, const std::optional<Value>& value) {
  if (value) json[key] = *value;
}
void put(Json& json, const char* key, const std::optional<Range>& range) {
  if (!range) return;
  Json& to = json[key] = Json::object();
  put_number(to, "least", range->least);
  put_number(to, "median", range->median);
  put_number(to, "most", range->most);
}
void put(Json& json, const char* key, const Absent& absent) {
  for (const auto& [reason, fields] : absent) json[key].push_back({{"reason", reason}, {"fields", fields}});
}

void take(const JsonFields& from, const char* key, std::optional<double>& value) {
  if (from.has_number(key)) value = from.number(key);
}
void take(const JsonFields& from, const char* key, std::optional<bool>& value) {
  if (from.has(key)) value = from.flag(key);
}
void take(const JsonFields& from, const char* key, std::optional<int64_t>& value) {
  if (from.has(key)) value = from.count(key);
}
void take(const JsonFields& from, const char* key, std::optional<std::string>& value) {
  if (from.has(key)) value = from.text(key);
}
void take(const JsonFields& from, const char* key, std::optional<std::vector<std::string>>& value) {
  if (from.has(key)) value = from.texts(key);
}
void take(const JsonFields& from, const char* key, std::optional<Range>& value) {
  if (!from.has(key)) return;
  const JsonFields range = from.object(key);
  value =
      Range{.least = range.number("least"), .median = range.number("median"), .most = range.number("most")};
}
void take(const JsonFields& from, const char* key, Absent& absent) {
  if (!from.has(key)) return;
  for (const JsonFields& one : from.objects(key)) absent[one.text("reason")] = one.texts("fields");
}

// Each field with its name: `each` writes or reads it.
template <class State, class Each>
void each_field_of_state(State& state, const Each& each) {
  each("clock_mhz", state.clock_mhz);
  each("memory_clock_mhz", state.memory_clock_mhz);
  each("power_w", state.power_w);
  each("energy_j", state.energy_j);
  each("temperature_c", state.temperature_c);
  each("memory_temperature_c", state.memory_temperature_c);
  each("throttle_reasons", state.throttle_reasons);
  each("power_limit_w", state.power_limit_w);
  each("default_power_limit_w", state.default_power_limit_w);
  each("ecc", state.ecc);
  each("uncorrected_ecc_errors", state.uncorrected_ecc_errors);
  each("mig", state.mig);
  each("other_processes", state.other_processes);
  each("uuid", state.uuid);
  each("vbios", state.vbios);
  each("load", state.load);
  each("absent", state.absent);
}

template <class Summary, class Each>
void each_field_of_telemetry(Summary& summary, const Each& each) {
  each("clock_mhz", summary.clock_mhz);
  each("memory_clock_mhz", summary.memory_clock_mhz);
  each("power_w", summary.power_w);
  each("energy_j", summary.energy_j);
  each("temperature_c", summary.temperature_c);
  each("memory_temperature_c", summary.memory_temperature_c);
  each("throttle_reasons", summary.throttle_reasons);
  each("load", summary.load);
  each("cycles", summary.cycles);
  each("absent", summary.absent);
}

}  // namespace

Json to_json(const DeviceState& state) {
  Json json = Json::object();
  each_field_of_state(state, [&](const char* key, const auto& value) { put(json, key, value); });
  return json;
}

Json to_json(const Telemetry& telemetry) {
  Json json = Json::object();
  put_number(json, "seconds", telemetry.seconds);
  json["readings"] = telemetry.readings;
  each_field_of_telemetry(telemetry, [&](const char* key, const auto& value) { put(json, key, value); });
  return json;
}

DeviceState read_device_state(const JsonFields& fields) {
  DeviceState state;
  each_field_of_state(state, [&](const char* key, auto& value) { take(fields, key, value); });
  return state;
}

Telemetry read_telemetry(const JsonFields& fields) {
  Telemetry telemetry;
  telemetry.seconds = fields.number("seconds");
  telemetry.readings = fields.count("readings");
  each_field_of_telemetry(telemetry, [&](const char* key, auto& value) { take(fields, key, value); });
  return telemetry;
}

}  // namespace assay
