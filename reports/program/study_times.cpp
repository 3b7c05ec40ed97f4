// SPDX-License-Identifier: Apache-2.0
#include "reports/program/study_times.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>

#include "bench/core/measure.h"
#include "reports/program/interrupt.h"
#include "reports/program/judging.h"
#include "reports/program/machine.h"

namespace assay {
namespace {

// A path whose tensors a worker holds, and its samples so far.
struct Turn {
  size_t contender;
  CaseRecord record;
  Samples samples = {};                 // of all rounds
  std::vector<double> medians_ns = {};  // of each round
};

bool may_run(VerdictKind kind) {
  constexpr std::array kKinds{VerdictKind::kPass, VerdictKind::kUninformative, VerdictKind::kUnsupported};
  return std::ranges::count(kKinds, kind) > 0;
}

// By the counter of energy; without that the mean of the readings.
std::optional<double> power_of(const Telemetry& telemetry) {
  if (telemetry.energy_j && telemetry.seconds > 0) return *telemetry.energy_j / telemetry.seconds;
  return telemetry.power_w;
}

class Times {
 public:
  Times(const Registry& registry, study::Plan& plan, const study::Study& study,
        const std::function<Device&(const Path&)>& device_of, const Options& options,
        const TimesWatcher& watcher)
      : registry_(registry),
        plan_(plan),
        study_(study),
        device_of_(device_of),
        options_(options),
        watcher_(watcher),
        judges_(plan.contenders.size()) {}

  void measure_devices() {
    for (const study::Contender& contender : plan_.contenders) {
      if (contender.is_emulated()) continue;
      Device& device = device_of_(*contender.path);
      const std::string name = device.info().name();
      if (ceilings_.count(name) > 0) continue;
      watcher_.progress(fmt::format("measuring what {} copies and multiplies", name));
      const DeviceRecord measured = options_.study.no_time
                                        ? DeviceRecord{.info = device.info(), .ceilings = {}}
                                        : measured_device(device);
      ceilings_[name] = measured.ceilings;
      watcher_.add_device(measured);
    }
  }

  // All paths on the dimensions of a point.
  void run(size_t point) {
    dims_ = dims_of(point);
    point_ = point;
    std::vector<Turn> turns;
    for (size_t number = 0; number < plan_.contenders.size(); ++number) {
      if (plan_.contenders[number].is_emulated()) continue;
      std::optional<CaseRecord> record = judged(number);
      if (record && record->verdict.kind == VerdictKind::kSkipped && !turns.empty()) {
        take_turns(turns);  // there is no memory beside what the others hold
        turns.clear();
        for (auto& judge : judges_) judge.reset();
        record = judged(number);
      }
      if (!record) return;
      if (record->verdict.kind == VerdictKind::kPass && !options_.study.no_time) {
        turns.push_back({number, *std::move(record)});
      } else {
        add({.point = point_,
             .contender = number,
             .verdict = std::string(name_of(record->verdict.kind)),
             .reason = record->verdict.kind == VerdictKind::kPass ? "not timed" : record->verdict.reason},
            record->verdict);
      }
    }
    take_turns(turns);
  }

 private:
  Dims dims_of(size_t point) const { return study::dims_at(plan_.axes, study_.points[point], plan_.dims); }

  PathJudge& judge(size_t number) {
    const study::Contender& contender = plan_.contenders[number];
    if (judges_[number] == nullptr)
      judges_[number] = std::make_unique<PathJudge>(registry_.subject(plan_.op->name, contender.name),
                                                    device_of_(*contender.path), options_);
    return *judges_[number];
  }

  // Nothing if interrupted.
  std::optional<CaseRecord> judged(size_t number) {
    const Case which{.op = std::string(plan_.op->name),
                     .path = plan_.contenders[number].name,
                     .dtype = plan_.contenders[number].dtype,
                     .dims = dims_,
                     .seed = plan_.seed};
    if (is_interrupted()) return std::nullopt;
    watcher_.progress(fmt::format("judging {}", which.to_string()));
    return judge(number).judge_and_keep(which);
  }

  void take_turns(std::vector<Turn>& turns) {
    for (int round = 0; round < study::kRounds; ++round) {
      for (Turn& turn : turns) {
        if (turn.record.verdict.kind != VerdictKind::kPass || !turn.record.no_perf.empty()) continue;
        watcher_.progress(fmt::format("timing {}", turn.record.which.to_string()));
        const auto samples = judge(turn.contender).sample(turn.record, Cache::kCold, study::kRounds);
        if (!samples) return;
        if (samples->ns.empty()) continue;
        turn.medians_ns.push_back(median_interval(samples->ns).median);
        turn.samples.ns.insert(turn.samples.ns.end(), samples->ns.begin(), samples->ns.end());
      }
    }
    for (const Turn& turn : turns) {
      const CaseRecord& record = turn.record;
      const bool is_timed = record.verdict.kind == VerdictKind::kPass && record.no_perf.empty();
      study::Time time{.point = point_,
                       .contender = turn.contender,
                       .verdict = std::string(name_of(record.verdict.kind)),
                       .reason = record.no_perf.empty() ? record.verdict.reason : record.no_perf};
      if (is_timed) {
        const Perf perf =
            judge(turn.contender).perf_of(record, turn.samples, Cache::kCold, ceilings_.at(record.device));
        time.median_ns = perf.median_ns;
        time.low_ns = std::ranges::min(turn.medians_ns);
        time.high_ns = std::ranges::max(turn.medians_ns);
        time.floor_ns = perf.floor_ns;
        time.implausible = perf.implausible.value_or("");
        if (perf.telemetry) time.power_w = power_of(*perf.telemetry);
      }
      add(std::move(time), record.verdict);
    }
  }

  void add(study::Time time, const Verdict& verdict) {
    for (size_t point = 0; !may_run(verdict.kind) && point < study_.points.size(); ++point) {
      if (dims_of(point) == dims_)
        plan_.contenders[time.contender].why_not[point] = fmt::format("{}: {}", time.verdict, time.reason);
    }
    watcher_.add_time(std::move(time));
  }

  const Registry& registry_;
  study::Plan& plan_;
  const study::Study& study_;
  const std::function<Device&(const Path&)>& device_of_;
  const Options& options_;
  const TimesWatcher& watcher_;
  std::vector<std::unique_ptr<PathJudge>> judges_;  // of each contender
  std::map<std::string, std::optional<Ceilings>> ceilings_;
  Dims dims_;  // of the point
  size_t point_ = 0;
};

}  // namespace

void study_times(const Registry& registry, study::Plan& plan, const study::Study& study,
                 const std::function<Device&(const Path&)>& device_of, const Options& options,
                 const TimesWatcher& watcher) {
  Times times(registry, plan, study, device_of, options, watcher);
  times.measure_devices();
  std::vector<Dims> seen;
  for (size_t point = 0; point < study.points.size() && !is_interrupted(); ++point) {
    const Dims dims = study::dims_at(plan.axes, study.points[point], plan.dims);
    if (static_cast<int64_t>(point) % plan.shards != plan.shard || std::ranges::count(seen, dims) > 0)
      continue;
    seen.push_back(dims);
    times.run(point);
  }
}

}  // namespace assay
