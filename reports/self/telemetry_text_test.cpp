// SPDX-License-Identifier: Apache-2.0
// The state of devices in words, and where reports show it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/render/render.h"
#include "reports/render/telemetry.h"
#include "reports/self/fixture.h"

namespace assay {
namespace {

Telemetry throttled() {
  Telemetry telemetry;
  telemetry.seconds = 2;
  telemetry.clock_mhz = Range{345, 1755, 1980};
  telemetry.power_w = 90;
  telemetry.energy_j = 1224;
  telemetry.temperature_c = 61;
  telemetry.throttle_reasons = {"gpu_idle", "hw_slowdown", "sw_power_cap"};
  return telemetry;
}

TEST(TelemetryText, PrefersThePowerOfTheCounter) {
  Telemetry telemetry = throttled();
  EXPECT_EQ(render_telemetry(telemetry),
            "1755 MHz (345 to 1980), 612 W, 61 °C, throttled by hw_slowdown and sw_power_cap");
  telemetry.energy_j.reset();
  telemetry.clock_mhz = Range{1755, 1755, 1755};
  telemetry.throttle_reasons = {"gpu_idle", "applications_clocks_setting"};
  EXPECT_EQ(render_telemetry(telemetry), "1755 MHz, 90 W, 61 °C");
  EXPECT_EQ(render_telemetry(Telemetry{}), "");
}

TEST(TelemetryText, CountsCycles) {
  Telemetry telemetry;
  EXPECT_EQ(render_cycles(telemetry), "");
  telemetry.cycles = 12'345.4;
  EXPECT_EQ(render_cycles(telemetry), "12,345 cycles");
  telemetry.cycles = 2'413'125;
  EXPECT_EQ(render_cycles(telemetry), "2.41 M cycles");
}

TEST(TelemetryText, DescribesAState) {
  EXPECT_EQ(render_state(*example_record().machine.devices.back().state),
            "345 MHz, memory 2619 MHz, 72 W of 700 W, 31 °C, ECC on, 0 uncorrected errors, MIG off, other "
            "processes: 0, GPU-0f1e2d3c, VBIOS 96.00.99");
  EXPECT_EQ(render_state(DeviceState{}), "");
  EXPECT_EQ(render_absent({{"Not Supported", {"ecc", "mig"}}, {"lost", {"power_w"}}}),
            "ecc, mig: Not Supported; power_w: lost");
}

TEST(TelemetryText, StandsBesideTimesInMarkdown) {
  Record record = example_record(0);
  const std::string text = render_markdown(record);
  EXPECT_TRUE(has(text, "| rate | of floor | meanwhile |\n|---|---|--:|--:|--:|--:|--:|---|\n"));
  EXPECT_TRUE(has(text, " | 1755 MHz (345 to 1980), 612 W, 61 °C, throttled by sw\\_power\\_cap |\n"));
  EXPECT_TRUE(has(text, " | load 1.5 |\n"));
  EXPECT_TRUE(has(text, " | – |\n"));
  EXPECT_EQ(count(text, ", 2.41 M cycles | "), 4u);
  EXPECT_TRUE(has(text, "\ncuda:0 before it was measured: 345 MHz, memory 2619 MHz"));
  EXPECT_TRUE(has(text, "; meanwhile: 1755 MHz"));
  EXPECT_TRUE(has(text, "; not known: memory\\_temperature\\_c: Not Supported\n"));
  for (CaseRecord& item : record.cases) {
    if (item.perf) item.perf->telemetry.reset();
  }
  EXPECT_FALSE(has(render_markdown(record), "| meanwhile |"));
}

TEST(TelemetryText, StandsBesideTimesOnThePage) {
  const std::string page = render_html(example_record(0));
  EXPECT_EQ(count(page,
                  "<td colspan=\"4\" class=\"small muted\">1755 MHz (345 to 1980), 612 W, 61 °C, "
                  "throttled by sw_power_cap\n"),
            7u);
  EXPECT_EQ(count(page, "<br>2.41 M cycles<td"), 4u);
  EXPECT_TRUE(has(page, "<p>cuda:0 before it was measured: 345 MHz"));
}

}  // namespace
}  // namespace assay
