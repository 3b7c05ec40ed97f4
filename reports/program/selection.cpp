// SPDX-License-Identifier: Apache-2.0
#include "reports/program/selection.h"

#include <fnmatch.h>

#include <algorithm>
#include <charconv>

#include "kernels/core/build.h"
#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"
#include "kernels/core_cuda/cuda_device.h"

namespace assay {
namespace {

int gpu_count() {
  if constexpr (kHasCuda) return cuda_device_count();
  return 0;
}

std::string why_no_gpu() {
  if constexpr (kHasCuda) return cuda_unavailable_reason();
  return "this build has no CUDA";
}

std::unique_ptr<Device> open_gpu(int index) {
  if (index >= gpu_count()) {
    throw device_error("--device cuda:{}: {}", index,
                       gpu_count() == 0 ? why_no_gpu() : fmt::format("there are {} GPUs", gpu_count()));
  }
  if constexpr (kHasCuda) return open_cuda(index);
  throw device_error("--device cuda:{}: {}", index, why_no_gpu());
}

// k for "cuda:k", 0 for "cuda", -1 for any other text.
int gpu_index(std::string_view wanted) {
  if (wanted == "cuda") return 0;
  int index = -1;
  if (wanted.starts_with("cuda:")) {
    const std::string_view number = wanted.substr(5);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
    if (error != std::errc() || end != number.data() + number.size() || index < 0) return -1;
  }
  return index;
}

Device* device_of(const Path& path, const std::vector<std::unique_ptr<Device>>& devices) {
  const auto device =
      std::ranges::find(devices, path.device, [](const auto& candidate) { return candidate->info().kind; });
  return device == devices.end() ? nullptr : device->get();
}

std::vector<SelectedPath> demo_paths(const Registry& registry,
                                     const std::vector<std::unique_ptr<Device>>& devices) {
  constexpr size_t kSpecimens = 6;
  const auto has_specimens = [&](const Op* op) { return !registry.specimens(*op).empty(); };
  const Op& op = **std::ranges::find_if(registry.ops(), has_specimens);
  std::vector<SelectedPath> selected;
  for (const Path& path : op.paths) {
    if (path.device == DeviceKind::kCpu)
      selected.push_back(
          {.subject = registry.subject(op.name, path.name), .device = device_of(path, devices)});
  }
  Options of_op;
  of_op.filters = {std::string(op.name)};
  std::vector<SelectedPath> specimens = select_specimens(registry, of_op, devices);
  // Those of the op itself, if it has some; those of its recipes differ little from each other.
  const auto of_recipe = [](const SelectedPath& one) {
    return std::ranges::count(one.subject.path->name, '.') > 1;
  };
  if (!std::ranges::all_of(specimens, of_recipe)) std::erase_if(specimens, of_recipe);
  const size_t shown = std::min(kSpecimens, specimens.size());
  for (size_t i = 0; i < shown; ++i) selected.push_back(specimens[i * specimens.size() / shown]);
  return selected;
}

}  // namespace

const std::string& device_name(std::string_view origin, const std::string& wanted) {
  if (wanted != "all" && wanted != "cpu" && gpu_index(wanted) < 0)
    throw usage_error("{} {} is not one of all, cpu, cuda, cuda:k", origin, excerpt(wanted));
  return wanted;
}

std::vector<std::unique_ptr<Device>> open_devices(std::string_view wanted) {
  std::vector<std::unique_ptr<Device>> devices;
  if (wanted == "all" || wanted == "cpu") devices.push_back(open_cpu());
  if (wanted == "all" && gpu_count() > 0) devices.push_back(open_gpu(0));
  if (gpu_index(wanted) >= 0) devices.push_back(open_gpu(gpu_index(wanted)));
  return devices;
}

// The ops that a pattern can name, without asking any path. All if there is none: only then does a
// hint need the names of all specimens.
std::vector<const Op*> ops_named_by(const std::vector<std::string>& globs, const Registry& registry) {
  std::vector<std::string> of_ops;
  for (const std::string& glob : globs) of_ops.push_back(glob.substr(0, glob.find('/')));
  std::vector<const Op*> ops;
  std::ranges::copy_if(registry.ops(), std::back_inserter(ops),
                       [&](const Op* op) { return matches(of_ops, op->name, ""); });
  return ops.empty() ? registry.ops() : ops;
}

bool matches(const std::vector<std::string>& globs, std::string_view op, std::string_view path) {
  const std::string whole = fmt::format("{}/{}", op, path);
  return globs.empty() || std::ranges::any_of(globs, [&](const std::string& glob) {
           const bool names_path = glob.find('/') != std::string::npos;
           return fnmatch(glob.c_str(), names_path ? whole.c_str() : std::string(op).c_str(), 0) == 0;
         });
}

std::vector<const Specimen*> specimens_of(const Registry& registry, const Op& op, const Options& options) {
  if (options.hostile) return registry.hostile(op);
  std::vector<const Specimen*> all;
  for (const Specimen& specimen : registry.specimens(op)) all.push_back(&specimen);
  return all;
}

std::vector<std::string> unmatched_filters(const Registry& registry, const Options& options) {
  struct Name {
    std::string op, path;
  };
  std::vector<Name> names;
  if (options.specimens) {
    for (const Op* op : ops_named_by(options.filters, registry)) {
      for (const Specimen* specimen : specimens_of(registry, *op, options))
        names.push_back({std::string(specimen->op), std::string(specimen->path.name)});
    }
  } else {
    for (const Op* op : registry.ops()) {
      for (const Path& path : op->paths) names.push_back({std::string(op->name), std::string(path.name)});
    }
  }
  const auto matches_something = [&](const std::string& filter) {
    return std::ranges::any_of(names,
                               [&](const Name& name) { return matches({filter}, name.op, name.path); });
  };
  std::vector<std::string> wrong;
  for (const std::string& filter : options.filters) {
    if (matches_something(filter)) continue;
    std::vector<std::string> known;
    const bool names_ops = filter.find('/') == std::string::npos;
    for (const Name& name : names) known.push_back(names_ops ? name.op : name.op + "/" + name.path);
    std::string hint = did_you_mean(filter, known);
    if (names_ops && matches_something("*/" + filter))
      hint = fmt::format("; did you mean '*/{}'?", excerpt(filter));
    if (!options.specimens && filter.find("/specimen.") != std::string::npos)
      hint = "; it names a specimen, which --specimens selects";
    if (!options.hostile && filter.find("/hostile.") != std::string::npos)
      hint = "; it names a hostile specimen, which verify --specimens --hostile selects";
    const size_t op = filter.find("/cuda");
    if (!kHasCuda && op != std::string::npos && matches_something(filter.substr(0, op)))
      hint = "; " + why_no_gpu();
    wrong.push_back(fmt::format("no {} matches {}{}{}", names_ops ? "op" : "path", excerpt(filter),
                                names_ops ? " (a pattern without / names ops)" : "",
                                hint.empty() ? "; see assay list" : hint));
  }
  return wrong;
}

std::vector<SelectedPath> select_specimens(const Registry& registry, const Options& options,
                                           const std::vector<std::unique_ptr<Device>>& devices) {
  std::vector<SelectedPath> selected;
  for (const Op* op : ops_named_by(options.filters, registry)) {
    for (const Specimen* specimen : specimens_of(registry, *op, options)) {
      if (!matches(options.filters, op->name, specimen->path.name)) continue;
      selected.push_back({.subject = registry.subject(op->name, specimen->path.name),
                          .device = device_of(specimen->path, devices)});
    }
  }
  return selected;
}

std::vector<SelectedPath> select_paths(const Registry& registry, const Options& options,
                                       const std::vector<std::unique_ptr<Device>>& devices) {
  if (options.command == Command::kDemo) return demo_paths(registry, devices);
  std::vector<SelectedPath> selected;
  for (const Op* op : registry.ops()) {
    for (const Path& path : op->paths) {
      if (!matches(options.filters, op->name, path.name)) continue;
      selected.push_back(
          {.subject = registry.subject(op->name, path.name), .device = device_of(path, devices)});
    }
  }
  return selected;
}

Case in_order(const Op& op, Case which) {
  require_dims(op, which.dims);
  Dims ordered;
  for (const DimInfo& dim : op.dims) ordered.set(std::string(dim.key), which.dims.at(dim.key));
  which.dims = ordered;
  return which;
}

std::unique_ptr<Device> open_device_for(const Path& path, std::string_view wanted) {
  const std::string kind(name_of(path.device));
  auto devices = open_devices(wanted == "all" ? kind : wanted);
  if (devices[0]->info().kind != path.device) {
    throw usage_error("--device {}: the path {} runs on {}", excerpt(wanted), path.name, kind);
  }
  return std::move(devices[0]);
}

}  // namespace assay
