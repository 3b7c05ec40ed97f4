// SPDX-License-Identifier: Apache-2.0
#include "reports/render/telemetry.h"

#include <fmt/ranges.h>

#include <cmath>

#include "reports/render/text.h"

namespace assay {
namespace {

class Words {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, const Args&... args) {
    text_ += text_.empty() ? "" : ", ";
    text_ += fmt::vformat(format, fmt::make_format_args(args...));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void add_reasons(Words& words, const std::optional<std::vector<std::string>>& reasons) {
  std::vector<std::string> names;
  for (const std::string& reason : reasons.value_or(std::vector<std::string>{}))
    if (slows(reason)) names.push_back(printable(reason));
  if (!names.empty()) words.add("throttled by {}", fmt::join(names, " and "));
}

}  // namespace

std::string render_telemetry(const Telemetry& telemetry) {
  Words words;
  if (const auto& clock = telemetry.clock_mhz) {
    if (clock->least == clock->most) {
      words.add("{:.0f} MHz", clock->median);
    } else {
      words.add("{:.0f} MHz ({:.0f} to {:.0f})", clock->median, clock->least, clock->most);
    }
  }
  if (telemetry.energy_j && telemetry.seconds > 0) {
    words.add("{:.0f} W", *telemetry.energy_j / telemetry.seconds);
  } else if (telemetry.power_w) {
    words.add("{:.0f} W", *telemetry.power_w);
  }
  if (telemetry.temperature_c) words.add("{:.0f} °C", *telemetry.temperature_c);
  if (telemetry.load) words.add("load {:.1f}", *telemetry.load);
  add_reasons(words, telemetry.throttle_reasons);
  return words.text();
}

std::string render_cycles(const Telemetry& telemetry) {
  if (!telemetry.cycles) return "";
  return *telemetry.cycles < 1e6 ? format_count(std::llround(*telemetry.cycles)) + " cycles"
                                 : fmt::format("{:.2f} M cycles", *telemetry.cycles / 1e6);
}

std::string render_state(const DeviceState& state) {
  Words words;
  if (state.clock_mhz) words.add("{:.0f} MHz", *state.clock_mhz);
  if (state.memory_clock_mhz) words.add("memory {:.0f} MHz", *state.memory_clock_mhz);
  if (state.power_w && state.power_limit_w) {
    words.add("{:.0f} W of {:.0f} W", *state.power_w, *state.power_limit_w);
  } else if (state.power_w) {
    words.add("{:.0f} W", *state.power_w);
  }
  if (state.temperature_c) words.add("{:.0f} °C", *state.temperature_c);
  if (state.memory_temperature_c) words.add("memory {:.0f} °C", *state.memory_temperature_c);
  add_reasons(words, state.throttle_reasons);
  if (state.ecc) words.add("ECC {}", *state.ecc ? "on" : "off");
  if (state.uncorrected_ecc_errors)
    words.add("{}", plural(*state.uncorrected_ecc_errors, "uncorrected error"));
  if (state.mig) words.add("MIG {}", *state.mig ? "on" : "off");
  if (state.other_processes) words.add("other processes: {}", *state.other_processes);
  if (state.load) words.add("load {:.1f}", *state.load);
  if (state.uuid) words.add("{}", printable(*state.uuid));
  if (state.vbios) words.add("VBIOS {}", printable(*state.vbios));
  return words.text();
}

std::vector<std::string> states_of_devices(const MachineRecord& machine) {
  std::vector<std::string> lines;
  for (const DeviceRecord& device : machine.devices) {
    if (!device.state) continue;
    const std::string state = render_state(*device.state), absent = render_absent(device.state->absent);
    const std::string later = device.telemetry ? render_telemetry(*device.telemetry) : "";
    lines.push_back(fmt::format(
        "{} before it was measured: {}{}{}", device.info.name(), state.empty() ? "nothing is known" : state,
        later.empty() ? "" : "; meanwhile: " + later, absent.empty() ? "" : "; not known: " + absent));
  }
  return lines;
}

std::string render_absent(const Absent& absent) {
  std::string text;
  for (const auto& [reason, fields] : absent) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ",
                        printable(fmt::format("{}", fmt::join(fields, ", "))), printable(reason));
  }
  return text;
}

}  // namespace assay
