// SPDX-License-Identifier: Apache-2.0
// Marks: threads
// Timing. The statistics are checked as mathematics. The timer is shown to see what it must see,
// and nothing else.
#include "bench/core/measure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <thread>

#include "bench/core/ceilings.h"
#include "bench/core/cpu_copy.h"
#include "properties/core/judge.h"
#include "properties/core/random.h"
#include "properties/core/registry.h"
#include "properties/self/marks.h"

namespace assay {
namespace {

TEST(MedianInterval, RefusesNoSamples) {
  EXPECT_THROW(median_interval({}), Error);
}

TEST(MedianInterval, OfOneSampleIsThatSample) {
  const MedianInterval one = median_interval({7});
  EXPECT_EQ(one.median, 7);
  EXPECT_EQ(one.low, 7);
  EXPECT_EQ(one.high, 7);
}

TEST(MedianInterval, TakesTheMiddleOfAnEvenNumber) {
  EXPECT_EQ(median_interval({4, 1, 3, 2}).median, 2.5);
}

TEST(MedianInterval, IsTheWholeRangeBelowSixSamples) {
  const MedianInterval five = median_interval({5, 1, 4, 2, 3});
  EXPECT_EQ(five.low, 1);
  EXPECT_EQ(five.high, 5);
}

// Order statistics from the binomial table: n = 15 gives the 4th and 12th, n = 100 the 40th and
// 61st.
TEST(MedianInterval, AgreesWithTheBinomialTable) {
  for (const auto& [n, low, high] : {std::tuple{15, 4, 12}, std::tuple{100, 40, 61}, std::tuple{6, 1, 6}}) {
    std::vector<double> samples(static_cast<size_t>(n));
    std::iota(samples.rbegin(), samples.rend(), 1);
    const MedianInterval interval = median_interval(samples);
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, high) << n;
  }
}

// The true median must lie in 95 % of the intervals. In 2000 draws, 93.5 % or fewer has a
// probability below 0.1 %.
TEST(MedianInterval, CoversTheTrueMedian) {
  constexpr int kDraws = 2000;
  constexpr int kSamples = 25;
  int covered = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    const CounterRandom random(static_cast<uint64_t>(draw), 0);
    std::vector<double> samples;
    for (uint64_t i = 0; i < kSamples; ++i) samples.push_back(random.uniform(i));
    const MedianInterval interval = median_interval(samples);
    if (interval.low <= 0.5 && 0.5 <= interval.high) ++covered;
  }
  EXPECT_GT(covered, 0.935 * kDraws);
}

TEST(CpuTimer, SeesTheWorkAndNotWhatIsAround) {
  const auto device = open_cpu();
  constexpr auto kWork = std::chrono::milliseconds(20);
  const double seconds = device->time([&] { std::this_thread::sleep_for(kWork); });
  EXPECT_GE(seconds, 0.020);
  std::this_thread::sleep_for(kWork);
  EXPECT_LT(device->time([] {}), 0.010);
}

Subject forward_on_cpu() {
  return registry().subject("dynamic_conv", "cpu");
}

Case small_case() {
  return {.op = "dynamic_conv",
          .path = "cpu",
          .dtype = DType::kF32,
          .dims = {{"b", 1}, {"t", 64}, {"d", 64}, {"w", 4}},
          .data = Regime::kNormal,
          .layout = Layout::kDense,
          .state = {},
          .seed = 0};
}

TEST(Drift, IsAChangeBeyondNoise) {
  const auto samples = [](double rise, double noise, int after = 10) {
    std::vector<double> result;
    for (int i = 0; i < 100; ++i) result.push_back((i < after ? 1.0 : 1 + rise) + noise * ((i * 37) % 10));
    return result;
  };
  EXPECT_FALSE(drift_of(samples(0, 0.001)));
  EXPECT_FALSE(drift_of(samples(0.02, 0.0001))) << "2 %";
  EXPECT_FALSE(drift_of(samples(0.05, 0.02))) << "the intervals overlap";
  for (const double rise : {0.05, -0.05}) {
    const std::optional<Drift> drift = drift_of(samples(rise, 0.001));
    ASSERT_TRUE(drift);
    EXPECT_EQ(drift->count, 10u);
    EXPECT_NEAR(drift->last / drift->first, 1 + rise, 0.002);
    EXPECT_TRUE(drift_of(samples(rise, 0.001, 60))) << "late";
  }
  EXPECT_FALSE(drift_of({})) << "too few";
  EXPECT_FALSE(drift_of(std::vector<double>(29, 1.0))) << "too few";
}

Perf measured(Problem& problem, Cache cache, const std::optional<Ceilings>& ceilings) {
  const Case& which = problem.which();
  const Subject subject = registry().subject(which.op, which.path);
  constexpr uint64_t kDrawSeed = 1;
  return perf_of(Timer(subject, problem, kDrawSeed).take(cache), subject,
                 problem.path().recipe(which.dims, which.dtype), which, problem.device().info(), cache,
                 ceilings, kDrawSeed);
}

TEST(Measure, KeepsRawSamplesAndQuotesTheFloor) {
  const auto device = open_cpu();
  const Subject subject = forward_on_cpu();
  Problem problem(*subject.op, *subject.path, small_case(), *device);
  ASSERT_EQ(judge(subject, problem).kind, VerdictKind::kPass);
  const Ceilings ceilings{
      .copy_bytes_per_s = 1e9, .copy_method = "given", .read_bytes_per_s = 1e15, .product_flops_per_s = {}};
  const Perf perf = measured(problem, Cache::kWarm, ceilings);
  EXPECT_GE(perf.samples_ns.size(), 15u);
  EXPECT_EQ(perf.median_ns, median_interval(perf.samples_ns).median);
  EXPECT_EQ(perf.bytes, (2 + 4) * 64 * 64 * 4);
  EXPECT_EQ(perf.floor_ns, static_cast<double>(perf.bytes));
  EXPECT_EQ(perf.fraction_of_floor, *perf.floor_ns / perf.median_ns);
  EXPECT_FALSE(perf.implausible);
}

TEST(Ceilings, FloorIsTheLongerOfCopyAndProducts) {
  Ceilings ceilings{
      .copy_bytes_per_s = 100,
      .copy_method = "given",
      .read_bytes_per_s = 100,
      .product_flops_per_s = {{Format::kStored, 100}, {Format::kBF16, 1000}, {Format::kTF32, 500}}};
  const auto seconds = [&](int64_t flops, Format factor, DType storage = DType::kF32) {
    const Recipe recipe{.storage = storage, .sums = {{.site = {0, "sum"}, .factors = factor}}};
    const auto parts = floor_parts(ceilings, {.bytes = 100, .flops = flops}, {}, recipe, 0);
    EXPECT_EQ(parts.size(), 1u);
    return parts.front().ns * 1e-9;
  };
  EXPECT_EQ(seconds(900, Format::kBF16), 1);
  EXPECT_EQ(seconds(2000, Format::kBF16), 2);
  EXPECT_EQ(seconds(2000, Format::kBF16x3), 6);
  EXPECT_EQ(seconds(2000, Format::kStored), 20);
  EXPECT_EQ(seconds(2000, Format::kStored, DType::kBF16), 2);
  EXPECT_EQ(seconds(2000, Format::kStored, DType::kF16), 20) << "not measured";
  EXPECT_EQ(seconds(2000, Format::kF16), 1) << "not measured";
  EXPECT_EQ(seconds(2000, Format::kF16x3), 1) << "not measured";
  ceilings.product_flops_per_s[Format::kF16] = 500;
  EXPECT_EQ(seconds(2000, Format::kF16x3), 12);
}

TEST(Ceilings, FasterOnesTakeEachRateFromWhereItIsHigher) {
  const Ceilings a{.copy_bytes_per_s = 2,
                   .copy_method = "a",
                   .read_bytes_per_s = 3,
                   .product_flops_per_s = {{Format::kStored, 5}, {Format::kF16, 7}}};
  const Ceilings b{.copy_bytes_per_s = 1,
                   .copy_method = "b",
                   .read_bytes_per_s = 4,
                   .product_flops_per_s = {{Format::kStored, 6}, {Format::kBF16, 8}}};
  for (const Ceilings& faster : {faster_of(a, b), faster_of(b, a)}) {
    EXPECT_EQ(faster.copy_bytes_per_s, 2);
    EXPECT_EQ(faster.copy_method, "a");
    EXPECT_EQ(faster.read_bytes_per_s, 4);
    EXPECT_EQ(faster.product_flops_per_s,
              (std::map<Format, double>{{Format::kStored, 6}, {Format::kF16, 7}, {Format::kBF16, 8}}));
  }
}

// The rate is that of a fast processor, and not higher than any processor reaches.
TEST(Ceilings, MultipliesInRegisters) {
  NOT_UNDER_THREAD_SANITIZER("what it slows down fifty times has no rate; StreamingCopy has the threads");
  const auto device = open_cpu();
  const Ceilings ceilings = measure_ceilings(*device);
  const double rate = ceilings.product_flops_per_s.at(Format::kStored);
  const auto threads = static_cast<double>(device->info().units);
  EXPECT_GT(rate, threads * 1e8);
  EXPECT_LT(rate, threads * 6e9 * 2 * 2 * 16);  // [flop/s] 6 GHz, two units of 16 lanes
}

// A CPU that counts how often its caches are flushed.
class FlushedDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return cpu_->info(); }
  void* allocate(int64_t bytes) override { return cpu_->allocate(bytes); }
  void release(void* memory, int64_t bytes) noexcept override { cpu_->release(memory, bytes); }
  bool host_can_access() const override { return true; }
  void copy_to_device(void*, const void*, int64_t) override {}
  void copy_to_host(void*, const void*, int64_t) override {}
  void* stream() const override { return nullptr; }
  void* other_stream() override { return nullptr; }
  void synchronize(void*) override {}
  void copy(void* to, const void* from, int64_t bytes, void* stream) override {
    cpu_->copy(to, from, bytes, stream);
  }
  void fill(void*, unsigned char, int64_t, void*) override {}
  double time(const std::function<void()>& work, void* stream) override { return cpu_->time(work, stream); }
  std::function<void()> capture(const std::function<void()>&) override { return {}; }
  bool is_capturing(void*) const override { return false; }
  void run_on_other_schedule(const std::function<void()>& work, uint64_t) override { work(); }
  void flush_cache() override { ++flushes; }

  size_t flushes = 0;

 private:
  std::unique_ptr<Device> cpu_ = open_cpu();
};

TEST(Measure, FlushesTheCachesBeforeEachColdTime) {
  FlushedDevice device;
  const Subject subject = forward_on_cpu();
  Problem problem(*subject.op, *subject.path, small_case(), device);
  measured(problem, Cache::kWarm, {});
  EXPECT_EQ(device.flushes, 1u) << "once, when the timer is made";
  const Perf cold = measured(problem, Cache::kCold, {});
  EXPECT_GT(device.flushes, cold.samples_ns.size() + 1);
}

// With a made-up slow memory, a cold time is faster than that memory allows, and the report must
// say so.
TEST(Measure, CallsATimeBelowTheReadCeilingImplausible) {
  const auto device = open_cpu();
  const Subject subject = forward_on_cpu();
  Problem problem(*subject.op, *subject.path, small_case(), *device);
  const Ceilings slow{
      .copy_bytes_per_s = 1, .copy_method = "given", .read_bytes_per_s = 1, .product_flops_per_s = {}};
  EXPECT_TRUE(measured(problem, Cache::kCold, slow).implausible);
  EXPECT_FALSE(measured(problem, Cache::kWarm, slow).implausible) << "warm data may come from the cache";
}

// 32768 flops at 1 flop/s take nine hours, with warm caches, too.
TEST(Measure, CallsATimeBelowTheProductCeilingImplausible) {
  const auto device = open_cpu();
  const Subject subject = forward_on_cpu();
  Problem problem(*subject.op, *subject.path, small_case(), *device);
  Ceilings slow{.copy_bytes_per_s = 1e15,
                .copy_method = "given",
                .read_bytes_per_s = 1e15,
                .product_flops_per_s = {{Format::kStored, 1}}};
  const auto implausible = measured(problem, Cache::kWarm, slow).implausible;
  ASSERT_TRUE(implausible);
  EXPECT_NE(implausible->find("1.25 times the measured rate"), std::string::npos) << *implausible;
  slow.product_flops_per_s[Format::kStored] = 1e15;
  EXPECT_FALSE(measured(problem, Cache::kWarm, slow).implausible);
}

TEST(StreamingCopy, CopiesEveryByteAndNoMore) {
  const auto device = open_cpu();
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{64}, int64_t{4095}, (int64_t{9} << 20) + 17}) {
    const DeviceBuffer from(*device, bytes + 64);
    const DeviceBuffer to(*device, bytes + 64);
    auto* source = static_cast<unsigned char*>(from.data());
    for (int64_t i = 0; i < bytes + 64; ++i) source[i] = static_cast<unsigned char>(i * 7 + 1);
    std::memset(to.data(), 0xEE, static_cast<size_t>(bytes + 64));
    streaming_copy(to.data(), from.data(), bytes);
    EXPECT_EQ(std::memcmp(to.data(), from.data(), static_cast<size_t>(bytes)), 0) << bytes;
    const auto* after = static_cast<const unsigned char*>(to.data()) + bytes;
    EXPECT_TRUE(std::all_of(after, after + 64, [](unsigned char byte) { return byte == 0xEE; })) << bytes;
  }
}

TEST(StreamingCopy, RefusesMisalignedPointers) {
  const auto device = open_cpu();
  const DeviceBuffer buffer(*device, 4096);
  EXPECT_THROW(streaming_copy(static_cast<char*>(buffer.data()) + 1, buffer.data(), 64), Error);
}

TEST(StreamingRead, DependsOnWhatItReads) {
  const auto device = open_cpu();
  constexpr int64_t kBytes = int64_t{9} << 20;
  const DeviceBuffer buffer(*device, kBytes);
  auto* words = static_cast<uint64_t*>(buffer.data());
  const uint64_t zeros = streaming_read(words, kBytes);
  words[kBytes / 16] = 5;
  EXPECT_NE(streaming_read(words, kBytes), zeros);
}

TEST(Sweeps, NameOpsAndServedDtypes) {
  ASSERT_FALSE(sweeps().empty());
  for (const Sweep& sweep : sweeps()) {
    const Op& op = registry().op(sweep.op);
    EXPECT_NO_THROW(require_dims(op, sweep.dims)) << sweep.op;
    const auto is_other = [&](const Path& path) { return path.device != sweep.device; };
    const auto serves = [&](const Path& path) {
      return !is_other(path) && std::ranges::count(path.dtypes, sweep.dtype) != 0;
    };
    EXPECT_TRUE(std::ranges::all_of(op.paths, is_other) || std::ranges::any_of(op.paths, serves))
        << "no path of " << sweep.op << " on " << name_of(sweep.device) << " serves " << name_of(sweep.dtype);
  }
}

TEST(Sweeps, TimeEveryPath) {
  for (const Op* op : registry().ops()) {
    for (const Path& path : op->paths) {
      const auto times = [&](const Sweep& sweep) {
        return sweep.op == op->name && sweep.device == path.device;
      };
      EXPECT_TRUE(std::ranges::any_of(sweeps(), times)) << op->name << "/" << path.name;
    }
  }
}

}  // namespace
}  // namespace assay
