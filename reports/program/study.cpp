// SPDX-License-Identifier: Apache-2.0
// study: which precision does a problem need?
#include "reports/render/study.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <set>

#include "kernels/core/printable.h"
#include "properties/core/generate.h"
#include "reports/program/capsule.h"
#include "reports/program/commands.h"
#include "reports/program/interrupt.h"
#include "reports/program/machine.h"
#include "reports/program/program.h"
#include "reports/program/selection.h"
#include "reports/program/study_folder.h"
#include "reports/program/study_times.h"
#include "reports/program/terminal.h"
#include "reports/record/study_journal.h"
#include "reports/render/text.h"
#include "reports/store/files.h"
#include "reports/store/locked_file.h"
#include "study/sites.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

// What a point costs at most, so that a study of the default axes takes a minute or two.
constexpr int64_t kMostFlops = int64_t{1} << 26, kMostElements = int64_t{1} << 22;

// The dimensions of the first problem that the op is timed on. Where no axis varies them they are
// halved until a point is small enough: the first one, and the others while they stay long enough
// to tell formats apart.
Dims default_dims(const Op& op, const std::vector<Sweep>& sweeps, const std::vector<study::Axis>& axes,
                  DType dtype) {
  Dims dims;
  for (const DimInfo& dim : op.dims) dims.set(dim.key, std::clamp<int64_t>(64, dim.min, dim.max));
  const auto timed = std::ranges::find(sweeps, op.name, &Sweep::op);
  if (timed != sweeps.end()) dims = timed->dims;
  std::set<std::string_view> varied;
  study::Point largest;
  for (const study::Axis& axis : axes) {
    varied.insert(axis.name);
    const auto most = axis.is_numeric() ? std::ranges::max_element(axis.values, {}, &study::AxisValue::number)
                                        : axis.values.begin();
    largest.push_back(static_cast<size_t>(most - axis.values.begin()));
  }
  const auto is_small = [&] {
    const Dims all = study::dims_at(axes, largest, dims);
    return op.cost(all, dtype).flops <= kMostFlops && tensor_bytes(op, all, dtype) <= 8 * kMostElements;
  };
  constexpr int64_t kLong = 64;
  for (const DimInfo& dim : op.dims) {
    const int64_t least = &dim == &op.dims.front() ? std::max<int64_t>(dim.min, 1) : kLong;
    const bool is_free = varied.count(dim.key) == 0 && is_axis(op, dim.key) && dim.max > 1;
    while (is_free && !is_small() && dims.at(dim.key) / 2 >= least) dims.set(dim.key, dims.at(dim.key) / 2);
  }
  return dims;
}

// The dimensions of the case that a file names, and those that its shapes have; others stay.
Dims dims_in(const Op& op, const TensorFile& file, Dims dims) {
  if (const auto line = file.metadata.find("case"); line != file.metadata.end()) {
    const Case which = parse_case(line->second);
    if (which.op == op.name) dims = which.dims;
  }
  for (const TensorInfo& info : op.inputs) {
    const auto axes = axes_of(info);
    const auto found = file.tensors.find(std::string(info.name));
    if (found == file.tensors.end()) continue;
    const Extents& shape = found->second.shape;
    for (size_t axis = 0; axis < axes.size() && static_cast<int>(axis) < shape.rank(); ++axis) {
      if (dims.contains(axes[axis])) dims.set(axes[axis], shape[static_cast<int>(axis)]);
    }
  }
  return dims;
}

study::Given given_from(const Op& op, const Options& options, const Dims& dims) {
  const TensorFile file = read_safetensors(options.in);
  study::Given given{.dims = dims_in(op, file, dims), .inputs = {}};
  const Case which{.op = std::string(op.name), .path = "", .dtype = DType::kF32, .dims = given.dims};
  const TensorBytes bytes = inputs_from(file, options.in, op, which);
  for (size_t i = 0; i < bytes.size(); ++i)
    given.inputs.push_back(study::read(bytes[i], op.inputs[i].dtype.value_or(DType::kF32)));
  return given;
}

bool has_failed(const study::Time& time) {
  constexpr std::array kKinds{VerdictKind::kFail, VerdictKind::kMistrusted, VerdictKind::kCrashed,
                              VerdictKind::kTimeout};
  return std::ranges::any_of(kKinds, [&](VerdictKind kind) { return time.verdict == name_of(kind); });
}

// A study that goes on. Another thread may conclude it, soon after a signal. What it adds is in the
// journal first.
class Going {
 public:
  Going(const study::Plan& plan, study::Study begun, const Options& options,
        const std::optional<Conditions>& conditions)
      : plan_(plan),
        options_(options),
        record_{.origin = {}, .study = std::move(begun)},
        journal_((make_output_directory(options.out), open_study_journal(options.out))),
        deadline_([this] {
          if (is_ending_.exchange(true)) return;
          conclude(false);
          _exit(kExitInterrupted);
        }) {
    record_.origin.started = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    record_.origin.command = options.command_line;
    record_.origin.tool = tool_record();
    record_.origin.machine = machine_record();
    record_.origin.conditions = conditions;
    journal_.append(study_head(record_));
  }
  ~Going() { clear_progress(); }

  const study::Study& study() const { return record_.study; }

  void add(const DeviceRecord& device) { add("devices", record_.origin.machine.devices, {device}); }
  void add(study::Time time) { add("times", record_.study.times, {std::move(time)}); }
  void add(study::SiteShare share) { add("sites", record_.study.sites, {std::move(share)}); }
  void add(const std::vector<study::Distances>& all) { add("distances", record_.study.distances, all); }
  void add(const std::vector<study::Cell>& cells) { add("cells", record_.study.cells, cells); }

  void progress(const std::string& text) const {
    if (!options_.quiet) show_progress(text);
  }

  int finish(bool complete) {
    while (is_ending_.exchange(true)) pause();  // the deadline ends the process
    return conclude(complete);
  }

 private:
  template <class Member>
  void add(const char* list, std::vector<Member>& members, const std::vector<Member>& more) {
    Json json = Json::array();
    for (const Member& member : more) json.push_back(to_json(member));
    const std::scoped_lock lock(mutex_);
    journal_.append(study_line(watch_.seconds(), list, std::move(json)));
    members.insert(members.end(), more.begin(), more.end());
  }

  // Writes the files and prints the answer. Returns the exit code.
  int conclude(bool complete) {
    const std::scoped_lock lock(mutex_);
    clear_progress();
    record_.study.complete = complete;
    record_.origin.seconds = watch_.seconds();
    const fs::path folder = options_.out;
    write_study(record_, folder);
    journal_.remove();
    if (!options_.quiet) fmt::print(stderr, "study: {}\n", printable((folder / "study.html").string()));
    fmt::print("{}", options_.json ? study_text(record_) : render_study_text(record_, text_width()));
    std::fflush(stdout);
    if (!complete) return kExitInterrupted;
    if (record_.study.cells.empty()) return kExitNothingSelected;
    const bool is_wrong =
        std::ranges::any_of(record_.study.cells, [](const auto& cell) { return cell.errors.outside > 0; }) ||
        std::ranges::any_of(record_.study.times, &has_failed);
    return is_wrong ? kExitNumericalFailure : kExitPassed;
  }

  const study::Plan& plan_;
  const Options& options_;
  StudyRecord record_;
  LockedFile journal_;
  Stopwatch watch_;
  std::mutex mutex_;
  std::atomic<bool> is_ending_ = false;  // somebody concludes
  Deadline deadline_;                    // last, because its thread uses the others
};

}  // namespace

int run_study(const Registry& registry, const std::vector<Sweep>& sweeps, const Options& given) {
  Options options = given;
  if (options.out.empty()) options.out = "assay-study";
  const Op& op = registry.op(options.subject);
  study::Plan plan{.op = &op,
                   .oracle = &registry.oracle(op.name),
                   .axes = axes_of(op, options.study, !options.in.empty()),
                   .draws = draws_of(options.study),
                   .seed = options.seed,
                   .shard = options.shard,
                   .shards = options.shards,
                   .target = target_of(options.study)};
  plan.dims = default_dims(op, sweeps, plan.axes, options.dtype.value_or(DType::kF32));
  if (!options.in.empty()) {
    plan.given = given_from(op, options, plan.dims);
    plan.dims = plan.given->dims;
    for (const study::Axis& axis : plan.axes) {
      if (axis.kind == study::Axis::Kind::kDim && is_axis(op, axis.name))
        throw usage_error("--sweep {} changes shapes, but --in gives them", axis.name);
    }
  }
  const auto devices = open_devices(options.device);
  const auto find_device = [&](const Path& path) {
    const auto found =
        std::ranges::find_if(devices, [&](const auto& device) { return device->info().kind == path.device; });
    return found == devices.end() ? nullptr : found->get();
  };
  const std::function<Device&(const Path&)> device_of = [&](const Path& path) -> Device& {
    return *find_device(path);
  };
  plan.contenders = study::contenders_of(
      op, *plan.oracle, globs_of(options.study), options.study.recipes,
      [&](DType dtype) { return !options.dtype || dtype == *options.dtype; },
      [&](const Path& path) { return find_device(path) != nullptr; }, plan.dims);
  if (plan.contenders.empty()) {
    fmt::print(stderr, "assay: no path of {} matches{}\n", op.name,
               options.dtype ? fmt::format(" in {}", name_of(*options.dtype)) : "");
    return kExitNothingSelected;
  }
  study::Study begun = study::begin(plan);
  const bool is_timed =
      !options.study.no_time && !std::ranges::all_of(plan.contenders, &study::Contender::is_emulated);
  const auto conditions = is_timed ? std::optional(timing_conditions(devices)) : std::nullopt;
  for (const Disturbance& one : conditions ? conditions->disturbances : std::vector<Disturbance>{})
    fmt::print(stderr, "assay: timings are disturbed: {}\n", one.text);
  Going going(plan, std::move(begun), options, conditions);
  study_times(registry, plan, going.study(), device_of, options,
              {.progress = [&](const std::string& text) { going.progress(text); },
               .add_device = [&](const DeviceRecord& device) { going.add(device); },
               .add_time = [&](study::Time time) { going.add(std::move(time)); }});
  study::Runner runner(op, device_of);
  const auto gives_up = [] { return is_interrupted(); };
  Pace pace;
  const auto all = static_cast<int64_t>(going.study().points.size());
  pace.planned = (all - plan.shard + plan.shards - 1) / plan.shards * plan.draws;
  Stopwatch step;
  bool is_done =
      study::run_cells(plan, going.study(), runner,
                       {.gives_up = gives_up,
                        .add = [&](const std::vector<study::Cell>& cells) { going.add(cells); },
                        .progress =
                            [&](size_t point, int64_t draw) {
                              if (pace.done > 0 || point > 0 || draw > 0) pace.add(step.seconds());
                              step = {};
                              going.progress(fmt::format("studying {}: {} draws, {}", op.name, describe(pace),
                                                         text_of(plan.axes, going.study().points[point])));
                            }});
  const auto point = study::deciding_point(going.study(), study::summarize(going.study()));
  if (is_done && point) {
    going.progress("what each site does");
    study::measure_sites(plan, going.study(), *point, gives_up,
                         [&](study::SiteShare share) { going.add(std::move(share)); });
    going.add(study::measure_distances(plan, going.study(), *point, runner));
  }
  return going.finish(is_done && !is_interrupted());
}

}  // namespace assay
