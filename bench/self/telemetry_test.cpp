// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// What a library with made-up values tells of a GPU, what Linux tells of the CPU, and what a watch
// makes of it.
#include "bench/core/telemetry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "bench/core/cpu_monitor.h"
#include "bench/core/measure.h"
#include "bench/core/nvml_monitor.h"
#include "bench/self/fake_nvml/fake_nvml.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::UnorderedElementsAre;

constexpr const char* kBusId = "0000:17:00.0";

// Libraries stand beside the test program.
std::string library(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

struct Nvml : testing::Test {
  explicit Nvml(const std::string& name = "libassay_fake_nvml.so") : file(library(name)) {
    test::FakeNvml* (*const find)() = SharedLibrary({file}).function("fake_nvml");
    told = find();
    *told = {};
  }
  DeviceState state() const { return NvmlMonitor(file, kBusId).state(); }

  std::string file;
  test::FakeNvml* told;
};

struct OldNvml : Nvml {
  OldNvml() : Nvml("libassay_old_nvml.so") {}
};

std::string reason_for(const Absent& absent, const std::string& field) {
  for (const auto& [reason, fields] : absent)
    if (std::ranges::count(fields, field) > 0) return reason;
  return "none";
}

TEST_F(Nvml, TellsTheWholeState) {
  const DeviceState state = this->state();
  EXPECT_THAT(state.absent, IsEmpty());
  EXPECT_EQ(state.clock_mhz, 1755);
  EXPECT_EQ(state.memory_clock_mhz, 2619);
  EXPECT_DOUBLE_EQ(state.power_w.value(), 612.25);
  EXPECT_DOUBLE_EQ(state.energy_j.value(), 5);
  EXPECT_EQ(state.temperature_c, 61);
  EXPECT_EQ(state.memory_temperature_c, 74);
  EXPECT_THAT(state.throttle_reasons, Optional(ElementsAre("sw_power_cap")));
  EXPECT_DOUBLE_EQ(state.power_limit_w.value(), 700);
  EXPECT_DOUBLE_EQ(state.default_power_limit_w.value(), 700);
  EXPECT_EQ(state.ecc, true);
  EXPECT_EQ(state.uncorrected_ecc_errors, 0);
  EXPECT_EQ(state.mig, false);
  EXPECT_EQ(state.other_processes, 0);
  EXPECT_EQ(state.uuid, "GPU-0f1e2d3c");
  EXPECT_EQ(state.vbios, "96.00.99");
}

TEST_F(Nvml, AGlanceLeavesOutWhatDoesNotChange) {
  const DeviceState state = NvmlMonitor(file, kBusId).glance();
  EXPECT_EQ(state.clock_mhz, 1755);
  EXPECT_FALSE(state.uuid || state.other_processes || state.power_limit_w || state.mig || state.ecc);
  EXPECT_THAT(state.absent, IsEmpty());
}

TEST_F(Nvml, NamesWhatTheGpuDoesNotTell) {
  told->results = {{"nvmlDeviceGetTotalEccErrors", test::kNotSupported},
                   {"nvmlDeviceGetVbiosVersion", test::kNotSupported},
                   {"nvmlDeviceGetTemperature", test::kGpuIsLost}};
  const DeviceState state = this->state();
  EXPECT_FALSE(state.uncorrected_ecc_errors || state.vbios || state.temperature_c);
  EXPECT_EQ(state.clock_mhz, 1755);
  EXPECT_THAT(
      state.absent,
      UnorderedElementsAre(testing::Pair("Not Supported", ElementsAre("uncorrected_ecc_errors", "vbios")),
                           testing::Pair("GPU is lost", ElementsAre("temperature_c"))));
}

TEST_F(Nvml, TakesTheMeanPowerWhereThatOfTheInstantIsNotTold) {
  told->field_power_result = test::kNotSupported;
  EXPECT_DOUBLE_EQ(state().power_w.value(), 598.5);
  told->results = {{"nvmlDeviceGetPowerUsage", test::kNotSupported}};
  EXPECT_EQ(reason_for(state().absent, "power_w"), "Not Supported");
}

TEST_F(Nvml, NamesThrottleReasonsBitByBit) {
  told->reasons = 0x1 | 0x80 | 0x100 | 0x8000;
  EXPECT_THAT(state().throttle_reasons, Optional(ElementsAre("gpu_idle", "hw_power_brake_slowdown",
                                                             "display_clock_setting", "bit_15")));
  told->reasons = 0;
  EXPECT_THAT(state().throttle_reasons, Optional(IsEmpty()));
}

TEST_F(Nvml, CountsOtherProcessesIfItFindsItself) {
  told->strangers = 100;
  EXPECT_EQ(state().other_processes, 100);
  told->names_this_process = false;
  const DeviceState state = this->state();
  EXPECT_FALSE(state.other_processes);
  EXPECT_EQ(reason_for(state.absent, "other_processes"),
            "this process is not among the 100 that the driver tells");
}

TEST_F(Nvml, SaysWhyNothingIsKnown) {
  const auto only_reason = [](const DeviceState& state) {
    EXPECT_FALSE(state.clock_mhz || state.uuid || state.throttle_reasons || state.mig);
    EXPECT_EQ(state.absent.size(), 1u);
    EXPECT_EQ(state.absent.begin()->second.size(), 15u);
    return state.absent.begin()->first;
  };
  EXPECT_THAT(only_reason(NvmlMonitor("/nowhere/libnvidia-ml.so.1", kBusId).state()),
              HasSubstr("/nowhere/libnvidia-ml.so.1: cannot open"));
  EXPECT_EQ(only_reason(NvmlMonitor("libm.so.6", kBusId).state()), "libm.so.6 has no function nvmlInit_v2");
  EXPECT_EQ(only_reason(NvmlMonitor(file, "0000:18:00.0").state()), "Not Found");
  told->results = {{"nvmlInit_v2", 999}};
  EXPECT_EQ(only_reason(state()), "Unknown Error");
}

TEST_F(OldNvml, TellsWhatItHas) {
  const DeviceState state = this->state();
  EXPECT_THAT(state.throttle_reasons, Optional(ElementsAre("sw_power_cap")));
  EXPECT_DOUBLE_EQ(state.power_w.value(), 598.5);
  EXPECT_EQ(reason_for(state.absent, "mig"), file + " has no function nvmlDeviceGetMigMode");
  EXPECT_EQ(reason_for(state.absent, "memory_temperature_c"),
            file + " has no function nvmlDeviceGetFieldValues");
  EXPECT_THAT(reason_for(state.absent, "other_processes"), HasSubstr("has no function"));
}

TEST_F(Nvml, FindsWhatDisturbs) {
  told->reasons = 0x1 | 0x2;  // idle, clocks that its owner has set
  EXPECT_THAT(disturbances_in(state()), IsEmpty());
  told->reasons = 0x1 | 0x4 | 0x20;
  told->strangers = 2;
  told->power_limit = 350'000;
  told->ecc_errors = 1;
  EXPECT_THAT(disturbances_in(state()),
              ElementsAre("throttled: sw_power_cap, sw_thermal_slowdown", "2 other processes compute on it",
                          "the power limit is 350 W, by default 700 W",
                          "its memory had 1 ECC error that was not corrected"));
  EXPECT_THAT(disturbances_in(DeviceState{}), IsEmpty());
}

// ---- the CPU

TEST(CpuMonitor, TellsTheFastestClockAndTheEnergyOfAllPackages) {
  const auto sys = std::filesystem::path(testing::TempDir()) / "assay_sys";
  const auto put = [&](const std::string& file, const std::string& content) {
    std::filesystem::create_directories((sys / file).parent_path());
    std::ofstream(sys / file) << content << "\n";
  };
  for (const auto& [cpu, clock] : {std::pair{"policy0", "2400000"}, {"policy1", "3100000"}})
    put(fmt::format("devices/system/cpu/cpufreq/{}/scaling_cur_freq", cpu), clock);
  for (const auto& [zone, name] :
       {std::pair{"intel-rapl:0", "package-0"}, {"intel-rapl:1", "package-1"}, {"intel-rapl:0:0", "core"}}) {
    put(fmt::format("class/powercap/{}/name", zone), name);
    put(fmt::format("class/powercap/{}/energy_uj", zone), "4500000");
  }
  const DeviceState state = CpuMonitor(sys).state();
  EXPECT_DOUBLE_EQ(state.clock_mhz.value(), 3100);
  EXPECT_DOUBLE_EQ(state.energy_j.value(), 9);
  EXPECT_TRUE(state.load);
  EXPECT_THAT(state.absent, IsEmpty());
  put("class/powercap/intel-rapl:1/energy_uj", "");
  const DeviceState unreadable = CpuMonitor(sys).state();
  EXPECT_FALSE(unreadable.energy_j);
  EXPECT_THAT(reason_for(unreadable.absent, "energy_j"), HasSubstr("intel-rapl:1/energy_uj cannot be read"));
  std::filesystem::remove_all(sys);
}

TEST(CpuMonitor, SaysWhatIsNotTold) {
  const DeviceState state = CpuMonitor("/nowhere").state();
  EXPECT_FALSE(state.clock_mhz || state.energy_j);
  EXPECT_EQ(reason_for(state.absent, "clock_mhz"), "/nowhere/devices/system/cpu/cpufreq tells no clock");
  EXPECT_EQ(reason_for(state.absent, "energy_j"), "/nowhere/class/powercap tells no energy");
}

// ---- summaries

DeviceState reading(double clock, double power, double energy, std::vector<std::string> reasons) {
  DeviceState state;
  state.clock_mhz = clock;
  state.memory_clock_mhz = 2619;
  state.power_w = power;
  state.energy_j = energy;
  state.temperature_c = power / 10;
  state.throttle_reasons = std::move(reasons);
  state.absent = {{"Not Supported", {"memory_temperature_c"}}};
  return state;
}

TEST(Telemetry, SummarisesReadings) {
  const Telemetry summary = summarize({reading(345, 90, 1000, {"gpu_idle"}), reading(1980, 600, 1010, {}),
                                       reading(1755, 690, 1030, {"sw_power_cap"})},
                                      0.05);
  EXPECT_EQ(summary.readings, 3);
  EXPECT_EQ(summary.clock_mhz->least, 345);
  EXPECT_EQ(summary.clock_mhz->median, 1755);
  EXPECT_EQ(summary.clock_mhz->most, 1980);
  EXPECT_EQ(summary.power_w, 460);
  EXPECT_EQ(summary.energy_j, 30);
  EXPECT_EQ(summary.temperature_c, 69);
  EXPECT_THAT(summary.throttle_reasons, Optional(ElementsAre("gpu_idle", "sw_power_cap")));
  EXPECT_FALSE(summary.memory_temperature_c || summary.cycles || summary.load);
  EXPECT_EQ(reason_for(summary.absent, "memory_temperature_c"), "Not Supported");
}

TEST(Telemetry, KnowsWhatOneReadingKnows) {
  DeviceState lost;
  lost.absent = {{"GPU is lost", {"clock_mhz", "memory_temperature_c"}}};
  const Telemetry summary = summarize({reading(1755, 600, 1000, {}), lost}, 0.05);
  EXPECT_EQ(summary.clock_mhz->most, 1755);
  EXPECT_FALSE(summary.energy_j);
  EXPECT_THAT(summary.absent, ElementsAre(testing::Pair("GPU is lost", ElementsAre("memory_temperature_c"))));
}

TEST(Telemetry, ACounterThatBeganAnewTellsNoEnergy) {
  const Telemetry summary = summarize({reading(1755, 600, 1000, {}), reading(1755, 600, 10, {})}, 0.05);
  EXPECT_FALSE(summary.energy_j);
  EXPECT_EQ(reason_for(summary.absent, "energy_j"), "the counter began anew");
}

struct CountingMonitor final : DeviceMonitor {
  DeviceState state() const override { return glance(); }
  DeviceState glance() const override {
    const double count = static_cast<double>(++glances);
    return reading(1000 + count, 100, 2 * count, {});
  }
  std::chrono::milliseconds interval() const override { return std::chrono::milliseconds(1); }
  mutable std::atomic<int> glances = 0;
};

TEST(Watch, ReadsFromBeforeToAfter) {
  const CountingMonitor monitor;
  Watch watch(monitor);
  while (monitor.glances < 5) std::this_thread::yield();
  const Telemetry seen = watch.stop();
  EXPECT_EQ(seen.readings, monitor.glances);
  EXPECT_GE(seen.readings, 6);
  EXPECT_EQ(seen.clock_mhz->least, 1001);
  EXPECT_EQ(seen.clock_mhz->most, 1000 + monitor.glances);
  EXPECT_EQ(seen.energy_j, 2.0 * static_cast<double>(seen.readings - 1));
  EXPECT_GT(seen.seconds, 0);
  const int before = monitor.glances;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(monitor.glances, before);
  const Watch dropped(monitor);  // ends without stop()
}

TEST(Watch, TwoReadingsAreTheLeast) {
  const CpuMonitor monitor;
  EXPECT_EQ(Watch(monitor).stop().readings, 2);
}

// ---- cycles

Perf perf_with(double by_flops, double by_bytes) {
  Perf perf;
  perf.median_ns = 2000;
  perf.floor_parts = {{.name = "launch", .ns = 10},
                      {.name = "a", .limit = FloorPart::Limit::kFlops, .ns = by_flops},
                      {.name = "b", .limit = FloorPart::Limit::kBytes, .ns = by_bytes}};
  perf.floor_ns = 10 + by_flops + by_bytes;
  return perf;
}

TEST(Cycles, StandBesideTimesWhoseFloorFlopsMake) {
  const Telemetry seen = summarize({reading(1500, 600, 0, {})}, 0.05);
  Perf by_flops = perf_with(900, 600), by_bytes = perf_with(600, 900);
  add_telemetry(by_flops, seen);
  EXPECT_EQ(by_flops.telemetry->cycles, 3000);
  add_telemetry(by_bytes, seen);
  EXPECT_TRUE(by_bytes.telemetry->clock_mhz);
  EXPECT_FALSE(by_bytes.telemetry->cycles);
  Perf without_clock = perf_with(900, 600), without_ceilings;
  add_telemetry(without_clock, Telemetry{});
  EXPECT_FALSE(without_clock.telemetry->cycles);
  add_telemetry(without_ceilings, seen);
  EXPECT_FALSE(without_ceilings.telemetry->cycles);
}

}  // namespace
}  // namespace assay
