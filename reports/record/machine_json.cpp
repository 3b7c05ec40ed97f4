// SPDX-License-Identifier: Apache-2.0
// The parts of a record that say on what, and under which conditions, it was made.
#include <array>
#include <nlohmann/json.hpp>

#include "kernels/core/json.h"
#include "reports/record/record.h"
#include "reports/record/telemetry_json.h"

namespace assay {
namespace {

constexpr std::array kDeviceKinds{DeviceKind::kCpu, DeviceKind::kCuda};
// The factors with a rate of products.
constexpr std::array kFactors{Format::kStored, Format::kF16, Format::kBF16, Format::kTF32};

Json to_json(const Ceilings& ceilings) {
  Json json;
  put_number(json, "copy_bytes_per_s", ceilings.copy_bytes_per_s);
  json["copy_method"] = ceilings.copy_method;
  put_number(json, "read_bytes_per_s", ceilings.read_bytes_per_s);
  if (ceilings.launch_s != 0) put_number(json, "launch_s", ceilings.launch_s);
  if (ceilings.next_launch_s != 0) put_number(json, "next_launch_s", ceilings.next_launch_s);
  json["products"] = Json::array();
  for (const auto& [factor, rate] : ceilings.product_flops_per_s) {
    Json& product = json["products"].emplace_back(Json{{"factor", name_of(factor)}});
    put_number(product, "flops_per_s", rate);
  }
  return json;
}

Ceilings read_ceilings(const JsonFields& fields) {
  Ceilings ceilings{.copy_bytes_per_s = fields.number("copy_bytes_per_s"),
                    .copy_method = fields.text("copy_method"),
                    .read_bytes_per_s = fields.number("read_bytes_per_s"),
                    .product_flops_per_s = {}};
  if (fields.has("launch_s")) ceilings.launch_s = fields.number("launch_s");
  if (fields.has("next_launch_s")) ceilings.next_launch_s = fields.number("next_launch_s");
  if (fields.has("products")) {
    for (const JsonFields& product : fields.objects("products"))
      ceilings.product_flops_per_s[product.one_of("factor", kFactors)] = product.number("flops_per_s");
  }
  return ceilings;
}

}  // namespace

Json to_json(const DeviceRecord& device) {
  Json json{{"name", device.info.name()},
            {"kind", name_of(device.info.kind)},
            {"index", device.info.index},
            {"model", device.info.model},
            {"driver", device.info.driver},
            {"memory_bytes", device.info.memory_bytes},
            {"cache_bytes", device.info.cache_bytes},
            {"units", device.info.units},
            {"compute_capability", device.info.compute_capability}};
  if (!device.no_ceilings.empty()) json["no_ceilings"] = device.no_ceilings;
  if (device.ceilings) json["ceilings"] = to_json(*device.ceilings);
  if (device.state) json["state"] = to_json(*device.state);
  if (device.telemetry) json["telemetry"] = to_json(*device.telemetry);
  return json;
}

DeviceRecord read_device(const JsonFields& fields) {
  DeviceRecord device{.info = {.kind = fields.one_of("kind", kDeviceKinds),
                               .index = fields.count<int>("index"),
                               .model = fields.text("model"),
                               .driver = fields.text("driver"),
                               .memory_bytes = fields.count("memory_bytes"),
                               .cache_bytes = fields.count("cache_bytes"),
                               .units = fields.count("units"),
                               .compute_capability = fields.count<int>("compute_capability")},
                      .ceilings = {}};
  if (fields.has("no_ceilings")) device.no_ceilings = fields.text("no_ceilings");
  if (fields.has("state")) device.state = read_device_state(fields.object("state"));
  if (fields.has("telemetry")) device.telemetry = read_telemetry(fields.object("telemetry"));
  if (fields.has("ceilings")) device.ceilings = read_ceilings(fields.object("ceilings"));
  return device;
}

Json to_json(const MachineRecord& machine) {
  Json json{{"host_os", machine.host_os}};
  if (!machine.host_name.empty()) json["host_name"] = machine.host_name;
  json["memory_bytes"] = machine.memory_bytes;
  json["devices"] = Json::array();
  for (const DeviceRecord& device : machine.devices) json["devices"].push_back(to_json(device));
  return json;
}

MachineRecord read_machine(const JsonFields& fields) {
  MachineRecord machine;
  machine.host_os = fields.text("host_os");
  if (fields.has("host_name")) machine.host_name = fields.text("host_name");
  machine.memory_bytes = fields.count("memory_bytes");
  for (const JsonFields& device : fields.objects("devices")) machine.devices.push_back(read_device(device));
  return machine;
}

Json to_json(const ToolRecord& tool) {
  return {{"version", tool.version},
          {"git", tool.git},
          {"dirty", tool.dirty},
          {"compiler", tool.compiler},
          {"build", tool.build}};
}

ToolRecord read_tool(const JsonFields& fields) {
  return {.version = fields.text("version"),
          .git = fields.text("git"),
          .dirty = fields.flag("dirty"),
          .compiler = fields.text("compiler"),
          .build = fields.text("build")};
}

Json to_json(const Conditions& conditions) {
  Json json;
  put_number(json, "load", conditions.load);
  json["threads"] = conditions.threads;
  json["disturbances"] = Json::array();
  for (const Disturbance& one : conditions.disturbances)
    json["disturbances"].push_back({{"kind", one.kind}, {"text", one.text}});
  return json;
}

Conditions read_conditions(const JsonFields& fields) {
  Conditions conditions{
      .load = fields.number("load"), .threads = fields.count("threads"), .disturbances = {}};
  for (const JsonFields& one : fields.objects("disturbances"))
    conditions.disturbances.push_back({.kind = one.text("kind"), .text = one.text("text")});
  return conditions;
}

Json to_json(const Sentinel& sentinel) {
  return {{"op", sentinel.op},
          {"path", sentinel.path},
          {"device", sentinel.device},
          {"before", to_json(sentinel.before)},
          {"after", to_json(sentinel.after)}};
}

Sentinel read_sentinel(const JsonFields& fields) {
  return {.op = fields.text("op"),
          .path = fields.text("path"),
          .device = fields.text("device"),
          .before = read_ceilings(fields.object("before")),
          .after = read_ceilings(fields.object("after"))};
}

}  // namespace assay
