// SPDX-License-Identifier: Apache-2.0
#include "reports/self/fixture.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/core/random.h"

namespace assay {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kGpu = "cuda:0";

DeviceState example_state() {
  DeviceState state;
  state.clock_mhz = 345;
  state.memory_clock_mhz = 2619;
  state.power_w = 71.5;
  state.energy_j = 1.25e9;
  state.temperature_c = 31;
  state.throttle_reasons = {"gpu_idle"};
  state.power_limit_w = state.default_power_limit_w = 700;
  state.ecc = true;
  state.uncorrected_ecc_errors = 0;
  state.mig = false;
  state.other_processes = 0;
  state.uuid = "GPU-0f1e2d3c";
  state.vbios = "96.00.99";
  state.absent = {{"Not Supported", {"memory_temperature_c"}}};
  return state;
}

Telemetry example_telemetry() {
  Telemetry telemetry;
  telemetry.seconds = 0.75;
  telemetry.readings = 38;
  telemetry.clock_mhz = Range{345, 1755, 1980};
  telemetry.memory_clock_mhz = 2619;
  telemetry.power_w = 598.25;
  telemetry.energy_j = 459;
  telemetry.temperature_c = 61;
  telemetry.throttle_reasons = {"gpu_idle", "sw_power_cap"};
  telemetry.absent = {{"Not Supported", {"memory_temperature_c"}}};
  return telemetry;
}

Telemetry example_cpu_telemetry() {
  Telemetry telemetry;
  telemetry.seconds = 0.5;
  telemetry.readings = 3;
  telemetry.load = 1.5;
  telemetry.absent = {{"no clock is told", {"clock_mhz"}}, {"no energy is told", {"energy_j"}}};
  return telemetry;
}

MachineRecord example_machine() {
  const DeviceInfo cpu{.kind = DeviceKind::kCpu,
                       .index = 0,
                       .model = "Intel(R) Xeon(R) Platinum 8481C",
                       .driver = "",
                       .memory_bytes = int64_t{137} << 30,
                       .cache_bytes = int64_t{105} << 20,
                       .units = 16,
                       .compute_capability = 0};
  const DeviceInfo gpu{.kind = DeviceKind::kCuda,
                       .index = 0,
                       .model = "NVIDIA H200",
                       .driver = "580.159.04",
                       .memory_bytes = 150'000'000'000,
                       .cache_bytes = 60 << 20,
                       .units = 132,
                       .compute_capability = 90};
  return {
      .host_os = "Debian GNU/Linux 12 (bookworm), kernel 6.1",
      .host_name = "bench-host",
      .memory_bytes = int64_t{137} << 30,
      .devices = {
          {.info = cpu,
           .ceilings =
               Ceilings{41.2e9, "streaming stores, 16 threads, 1 GiB", 45e9, {{Format::kStored, 1.6e12}}}},
          {.info = gpu,
           .ceilings = Ceilings{4.25e12,
                                "cudaMemcpyAsync, 4 GiB",
                                4.4e12,
                                {{Format::kStored, 51.2e12}, {Format::kF16, 704e12}}},
           .state = example_state(),
           .telemetry = example_telemetry()}}};
}

OutputNumerics numerics(std::string name, double error_over_bound, double ulp, int64_t elements) {
  const auto count = static_cast<double>(elements);
  OutputNumerics output{.name = std::move(name),
                        .comparison = {},
                        .conformity = Conformity{.rms = 3.1e-4 * error_over_bound,
                                                 .predicted = 2.2e-4,
                                                 .allowed = 5.3e-4,
                                                 .largest = 1.1e-3,
                                                 .count = 1024,
                                                 .doubts = 0,
                                                 .rows = 32,
                                                 .farthest = 5},
                        .obeys_rms_law = true,
                        .elements = elements};
  Comparison& seen = output.comparison;
  seen.count = seen.finite = elements;
  seen.wrong = error_over_bound > 1 ? 3 : 0;
  seen.equal = elements / 4;
  seen.max_error_over_bound = error_over_bound;
  seen.max_ulp = ulp;
  seen.max_abs = 1.9e-3 * error_over_bound;
  seen.sum_error = 1.25e-5 * count;
  seen.sum_square_error = 2.1e-7 * error_over_bound * count;
  seen.sum_square_value = 1.4 * count;
  seen.worst =
      WorstElement{.element = elements / 3, .got = 1.0078125, .want = 1.005913, .bound = 1.953125e-3};
  return output;
}

CaseRecord passing(std::string_view op, std::string_view path, std::string_view device, DType dtype,
                   uint64_t seed) {
  const CounterRandom random(seed, 7);
  const auto upto = [&](uint64_t lane, double limit) {
    return static_cast<int64_t>(1 + limit * random.uniform(0, lane));
  };
  CaseRecord item;
  item.which = {.op = std::string(op),
                .path = std::string(path),
                .dtype = dtype,
                .dims = {{"b", upto(1, 3)}, {"t", upto(2, 64)}, {"d", upto(3, 130)}, {"w", upto(4, 8)}},
                .data = all_regimes()[seed % all_regimes().size()],
                .layout = all_layouts()[seed / 2 % all_layouts().size()],
                .state = parse_state(seed % 3 == 0 ? "second_call" : "first_call"),
                .seed = random.bits(0)};
  item.device = device;
  item.verdict.recipe = Recipe{.storage = dtype}.to_string();
  const double ratio = item.which.data == Regime::kIntegers ? 0 : std::sqrt(random.uniform(1));
  const int64_t elements = item.which.dims[dynamic_conv::kB] * item.which.dims[dynamic_conv::kT] *
                           item.which.dims[dynamic_conv::kD];
  for (std::string_view output : {"dx", "dk", "out"}) {
    if (op.ends_with("_grad") != (output == "out")) {
      item.verdict.outputs.push_back(numerics(std::string(output), ratio, ratio / 2, elements));
    }
  }
  item.verdict.reason = fmt::format("{} elements compared", elements);
  item.no_perf = "not timed";
  item.seconds = 0.25;
  return item;
}

Perf perf(Cache cache, std::string_view timer, double floor_ns, double typical_ns, int64_t bytes) {
  const CounterRandom random(static_cast<uint64_t>(typical_ns), 3);
  Perf result;
  result.cache = cache;
  result.timer = timer;
  for (uint64_t i = 0; i < 60; ++i) {
    const double slow = i % 29 == 7 ? 1.6 : 1 + 0.08 * std::max(0.0, random.normal(2 * i));
    result.samples_ns.push_back(typical_ns * (slow + 0.01 * random.normal(2 * i + 1)));
  }
  const MedianInterval middle = median_interval(result.samples_ns);
  result.median_ns = middle.median;
  result.ci95_ns[0] = middle.low;
  result.ci95_ns[1] = middle.high;
  result.bytes = bytes;
  result.flops = 2 * bytes;
  result.floor_ns = floor_ns;
  result.fraction_of_floor = floor_ns / middle.median;
  result.floor_parts = {{.name = "launch", .ns = 0.125 * floor_ns},
                        {.name = "call",
                         .limit = FloorPart::Limit::kBytes,
                         .ns = 0.875 * floor_ns,
                         .bytes = bytes,
                         .flops = 2 * bytes}};
  if (cache == Cache::kCold && timer == "cuda_event")
    result.graph = GraphTimes{.samples_ns = {typical_ns, typical_ns}, .median_ns = typical_ns};
  if (cache == Cache::kCold && result.fraction_of_floor > 1) {
    result.implausible = fmt::format("{:.3g} ns is below the floor of {:.3g} ns", middle.median, floor_ns);
  }
  return result;
}

CaseRecord timed(std::string_view op, std::string_view path, std::string_view device, DType dtype,
                 double slowdown) {
  CaseRecord item = passing(op, path, device, dtype, 0);
  item.which = {.op = std::string(op),
                .path = std::string(path),
                .dtype = dtype,
                .dims = {{"b", 8}, {"t", 2048}, {"d", 2048}, {"w", 4}}};
  item.no_perf.clear();
  item.verdict.outputs.front().shares = {{"norm", 1.5e-3, 1e-4}, {"product", 5e-4, 1.75e-5}};
  const bool on_gpu = device == kGpu;
  const int64_t bytes = int64_t{8} * 2048 * 2048 * 6 * static_cast<int64_t>(size_of(dtype));
  const double floor_ns = static_cast<double>(bytes) / (on_gpu ? 4.25e12 : 41.2e9) * 1e9;
  const std::string_view timer = on_gpu ? "cuda_event" : "steady_clock";
  item.perf = perf(Cache::kCold, timer, floor_ns, floor_ns * slowdown, bytes);
  item.perf_warm = perf(Cache::kWarm, timer, floor_ns, floor_ns * slowdown * 0.96, bytes);
  item.perf->telemetry = on_gpu ? example_telemetry() : example_cpu_telemetry();
  if (dtype == DType::kF16) item.perf->telemetry->cycles = 2'413'125;
  return item;
}

// One of each verdict that is not a pass.
void add_other_verdicts(Record& record) {
  const auto add = [&](VerdictKind kind, DType dtype, uint64_t seed, std::string_view reason) -> CaseRecord& {
    CaseRecord item = passing("dynamic_conv_grad", "cuda", kGpu, dtype, seed);
    item.verdict.kind = kind;
    item.verdict.reason = reason;
    item.no_perf = fmt::format("the verdict is {}", name_of(kind));
    if (is_failure(kind)) item.capsule = fmt::format("capsules/0{}-dynamic_conv_grad-cuda.safetensors", seed);
    return record.cases.emplace_back(std::move(item));
  };
  CaseRecord& wrong = add(VerdictKind::kFail, DType::kBF16, 91,
                          "dk: 3 of 2048 elements are outside their bound; element 17 is nan, want -inf");
  wrong.shrunk_from = passing("dynamic_conv_grad", "cuda", kGpu, DType::kBF16, 92).which;
  wrong.verdict.outputs.back() = numerics("dk", kInfinity, 0, 2048);
  wrong.verdict.outputs.back().conformity->allowed = kInfinity;
  Comparison& seen = wrong.verdict.outputs.back().comparison;
  seen.nonfinite = 1;
  seen.open = 2;
  seen.max_abs = seen.sum_square_error = 0.125;
  seen.worst = {
      .element = 17, .got = std::numeric_limits<double>::quiet_NaN(), .want = -kInfinity, .bound = 0};
  add(VerdictKind::kFail, DType::kF32, 93,
      "dx: the rms error 3.1e-04 exceeds 1.2e-07, what f32 products and sums allow")
      .verdict.outputs.front() = numerics("dx", 7.25, 19.5, 640);
  add(VerdictKind::kMistrusted, DType::kF16, 94,
      "the comparison would accept zeros: the bound exceeds every value");
  const auto dies = [&](VerdictKind kind, uint64_t seed, std::string reason, bool alone) {
    Verdict& verdict = add(kind, DType::kBF16, seed, std::move(reason)).verdict;
    verdict.outputs.clear();
    verdict.fails_alone = alone;
  };
  dies(VerdictKind::kCrashed, 95, "an illegal memory access was encountered", true);
  dies(VerdictKind::kTimeout, 96, "did not return within 20 s", false);
  add(VerdictKind::kUnsupported, DType::kBF16, 97, "k with stride 0 along w").verdict.outputs.clear();
  add(VerdictKind::kSkipped, DType::kF32, 98, "needs 310 GB, 150 GB are there").verdict.outputs.clear();
}

}  // namespace

Record example_record(int cases) {
  Record record;
  record.complete = true;
  record.started = "2026-01-15T09:30:00Z";
  record.seconds = 41.7;
  record.command = {"assay", "run", "--out", "assay-out"};
  record.seed = 18446744073709551615u;
  record.machine = example_machine();
  record.tool = {.version = "0.1.0",
                 .git = "4e1e62c0a1b2c3d4",
                 .dirty = true,
                 .compiler = "GNU 12.2.0",
                 .build = "Release"};
  double slowdown = 1.02;
  for (std::string_view op : {"dynamic_conv", "dynamic_conv_grad"}) {
    for (std::string_view device : {kCpu, kGpu}) {
      const std::string_view path = device == kGpu ? "cuda" : "cpu";
      for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (int i = 0; i < cases; ++i) {
          record.cases.push_back(passing(op, path, device, dtype, static_cast<uint64_t>(i)));
        }
        record.cases.push_back(timed(op, path, device, dtype, slowdown));
        slowdown += 0.13;
      }
    }
  }
  record.cases.push_back(timed("dynamic_conv", "cuda", kGpu, DType::kF32, 0.7));
  record.cases.back().which.dims.set("t", 1024);
  add_other_verdicts(record);
  record.not_run = {{"dynamic_conv", "cuda.f64", "left out by --filter"}};
  return record;
}

Record hostile_record() {
  Record record = example_record(1);
  const std::string hostile(kHostileText);
  record.started = record.machine.host_os = record.machine.host_name = hostile;
  record.tool = {.version = hostile, .git = hostile, .dirty = false, .compiler = hostile, .build = hostile};
  record.command = {hostile, hostile};
  for (DeviceRecord& device : record.machine.devices) {
    device.info.model = device.info.driver = device.ceilings->copy_method = hostile;
    if (device.state) device.state->uuid = device.state->vbios = hostile;
    if (device.state) device.state->throttle_reasons = {hostile};
    if (device.state) device.state->absent = {{hostile, {hostile}}};
  }
  for (CaseRecord& item : record.cases) {
    item.which.op = item.which.path = item.device = item.verdict.recipe = item.verdict.reason = item.no_perf =
        hostile;
    if (!item.capsule.empty()) item.capsule = hostile;
    item.which.dims.set(hostile, 1);
    item.shrunk_from = item.which;
    for (OutputNumerics& output : item.verdict.outputs) {
      output.name = hostile;
      for (Share& share : output.shares) share.stage = hostile;
    }
    for (std::optional<Perf>* perf : {&item.perf, &item.perf_warm}) {
      if (*perf) (*perf)->timer = hostile;
      if (*perf) (*perf)->implausible = hostile;
      if (*perf && (*perf)->telemetry) (*perf)->telemetry->throttle_reasons = {hostile};
      if (*perf && (*perf)->telemetry) (*perf)->telemetry->absent = {{hostile, {hostile}}};
    }
  }
  record.not_run = {{hostile, hostile, hostile}};
  record.given = GivenFiles{.in = hostile, .got = hostile};
  return record;
}

Record specimens_record() {
  Record record = example_record(2);
  std::erase_if(record.cases, [](const CaseRecord& item) { return item.which.op == "dynamic_conv"; });
  for (CaseRecord& item : record.cases) item.perf = item.perf_warm = std::nullopt;
  record.not_run.clear();
  record.specimens = {{"dynamic_conv_grad", "cpu", "nothing is wrong"},
                      {"dynamic_conv_grad", "cuda", "much is wrong"},
                      {"dynamic_conv_grad", "absent", "nobody knows"}};
  return record;
}

size_t count(std::string_view text, std::string_view part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Record interrupted_record() {
  Record interrupted = example_record(1);
  interrupted.complete = false;
  interrupted.planned = 1414;
  interrupted.running = interrupted.cases.front().which;
  interrupted.machine.devices.front().ceilings.reset();
  interrupted.machine.devices.front().no_ceilings = "no memory";
  for (CaseRecord& item : interrupted.cases) {
    for (std::optional<Perf>* timed : {&item.perf, &item.perf_warm}) {
      if (*timed) (*timed)->floor_ns = (*timed)->fraction_of_floor = std::nullopt;
    }
  }
  return interrupted;
}

std::vector<Record> odd_records() {
  Record failures_only = example_record(1);
  std::erase_if(failures_only.cases,
                [](const CaseRecord& item) { return item.verdict.kind == VerdictKind::kPass; });
  Record one_sample = example_record(0);
  one_sample.cases.front().perf->samples_ns = {1000};
  one_sample.cases.front().perf_warm.reset();
  Record zero_time = example_record(0);
  Perf& perf = *zero_time.cases.front().perf;
  perf.samples_ns = {0, 0, 0};
  perf.median_ns = 0;
  perf.floor_ns = perf.fraction_of_floor = 0;
  perf.bytes = 0;
  Record hostile_specimens = hostile_record();
  const std::string hostile(kHostileText);
  hostile_specimens.specimens = {{hostile, hostile, hostile}, {"op", hostile, hostile}};
  return {Record{},         failures_only,        one_sample,        zero_time,
          hostile_record(), interrupted_record(), hostile_specimens, specimens_record()};
}

Record one_passing_case(double error_over_bound, double rms_over_allowed) {
  Record record = example_record(1);
  record.cases.resize(1);
  record.cases.front().verdict.outputs.resize(1);
  OutputNumerics& output = record.cases.front().verdict.outputs.front();
  output.comparison.max_error_over_bound = error_over_bound;
  output.comparison.sum_square_error = 2.1e-7 * static_cast<double>(output.comparison.finite);
  output.conformity->rms = rms_over_allowed * output.conformity->allowed;
  return record;
}

}  // namespace assay
