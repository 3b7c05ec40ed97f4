// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "bench/core/ceilings.h"
#include "kernels/core/build.h"
#include "kernels/core_cuda/cuda_device.h"
#include "reports/program/commands.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/terminal.h"
#include "reports/record/telemetry_json.h"
#include "reports/render/summary.h"
#include "reports/render/telemetry.h"
#include "reports/render/text.h"

namespace assay {
namespace {

std::string gpu_state() {
  if constexpr (kHasCuda) {
    const int count = cuda_device_count();
    return count > 0 ? fmt::format("{} found", count) : cuda_unavailable_reason();
  }
  return "this build has no CUDA";
}

void add_measured(Json& json, const DeviceRecord& measured) {
  if (measured.state) json["state"] = to_json(*measured.state);
  if (measured.telemetry) json["telemetry"] = to_json(*measured.telemetry);
  if (!measured.ceilings) {
    json["no_ceilings"] = measured.no_ceilings;
    return;
  }
  const Ceilings& ceilings = *measured.ceilings;
  json["copy_bytes_per_s"] = ceilings.copy_bytes_per_s;
  json["copy_method"] = ceilings.copy_method;
  json["read_bytes_per_s"] = ceilings.read_bytes_per_s;
  json["products"] = Json::array();
  for (const auto& [factor, rate] : ceilings.product_flops_per_s)
    json["products"].push_back({{"factor", name_of(factor)}, {"flops_per_s", rate}});
}

// A line, or several in the column of the first one's text.
template <class... Args>
void print_line(fmt::format_string<Args...> format, const Args&... args) {
  constexpr int kText = 10;  // [columns] before it
  fmt::print("{}\n", wrapped(fmt::vformat(format, fmt::make_format_args(args...)), text_width(), kText));
}

void print_state(const DeviceRecord& device) {
  const std::string state = render_state(device.state.value());
  if (!state.empty()) print_line("          now: {}", state);
  if (const std::string later = render_telemetry(device.telemetry.value()); !later.empty())
    print_line("          while it was measured: {}", later);
  if (const std::string absent = render_absent(device.state->absent); !absent.empty())
    print_line("          not known: {}", absent);
}

}  // namespace

int run_doctor(const Options& options) {
  const auto devices = open_devices(options.device);
  const MachineRecord machine = machine_record();
  const ToolRecord tool = tool_record();
  Json json{{"tool",
             {{"version", tool.version},
              {"git", tool.git},
              {"dirty", tool.dirty},
              {"compiler", tool.compiler},
              {"build", tool.build}}},
            {"host_os", machine.host_os},
            {"memory_bytes", machine.memory_bytes},
            {"gpus", gpu_state()},
            {"devices", Json::array()}};
  if (!options.json) {
    print_line("assay     {} ({}{}), {}, {}", tool.version, tool.git, tool.dirty ? ", with changes" : "",
               tool.compiler, tool.build);
    print_line("system    {}, {:.1f} GiB", machine.host_os,
               static_cast<double>(machine.memory_bytes) / 0x1p30);
    print_line("GPUs      {}", gpu_state());
  }
  // Asked before we load the machine ourselves.
  const std::vector<Disturbance> disturbances = timing_conditions(devices).disturbances;
  for (const auto& device : devices) {
    const DeviceInfo& info = device->info();
    const DeviceRecord measured = measured_device(*device);
    const std::optional<Ceilings>& ceilings = measured.ceilings;
    json["devices"].push_back({{"device", info.name()},
                               {"model", info.model},
                               {"driver", info.driver},
                               {"memory_bytes", info.memory_bytes},
                               {"cache_bytes", info.cache_bytes},
                               {"units", info.units},
                               {"compute_capability", info.compute_capability}});
    add_measured(json["devices"].back(), measured);
    if (options.json) continue;
    print_line("{:<9} {}, {} {}, {:.1f} GiB, {:.0f} MiB last-level cache", info.name(), info.model,
               info.units, info.kind == DeviceKind::kCpu ? "hardware threads" : "multiprocessors",
               static_cast<double>(info.memory_bytes) / 0x1p30,
               static_cast<double>(info.cache_bytes) / 0x1p20);
    if (!info.driver.empty()) print_line("          driver {}, sm_{}", info.driver, info.compute_capability);
    print_state(measured);
    if (!ceilings) {
      print_line("          {}", ceilings_missing(measured));
      continue;
    }
    print_line("          copies {:.1f} GB/s, read and written ({}); reads {:.1f} GB/s",
               ceilings->copy_bytes_per_s / 1e9, ceilings->copy_method, ceilings->read_bytes_per_s / 1e9);
    print_line("          multiplies {}", format_products(ceilings));
    print_line("          a call takes {:.3g} µs or more{}", 1e6 * ceilings->launch_s,
               ceilings->next_launch_s == 0
                   ? ""
                   : fmt::format(", each further launch {:.3g} µs", 1e6 * ceilings->next_launch_s));
  }
  json["disturbances"] = Json::array();
  for (const Disturbance& one : disturbances) json["disturbances"].push_back(one.text);
  if (options.json) {
    fmt::print("{}\n", json.dump(2));
  } else if (disturbances.empty()) {
    print_line("timing    nothing was found that disturbs it");
  } else {
    for (const Disturbance& disturbance : disturbances) print_line("timing    {}", disturbance.text);
  }
  return options.strict_env && !disturbances.empty() ? kExitEnvironmentUnfit : kExitPassed;
}

}  // namespace assay
