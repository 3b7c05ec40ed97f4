// SPDX-License-Identifier: Apache-2.0
#include "reports/program/problems.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "kernels/core/printable.h"
#include "properties/core/generate.h"
#include "study/axis.h"

namespace assay {
namespace {

// Of --sweep.
std::vector<study::Axis> axes_of(const Op& op, const std::vector<std::string>& texts) {
  std::vector<study::Axis> axes;
  for (const std::string& text : texts) {
    try {
      axes.push_back(study::parse_axis(op, text));
    } catch (const Error& error) {
      const size_t equals = text.find('=');
      const bool may_be_of_others = equals != std::string::npos &&
                                    std::ranges::count(op.dims, text.substr(0, equals), &DimInfo::key) == 0;
      throw usage_error("--sweep {}: {}{}", excerpt(text), error.what(),
                        may_be_of_others ? "; FILTER selects ops" : "");
    }
    if (axes.back().kind != study::Axis::Kind::kDim)
      throw usage_error("--sweep {} is no dimension of {}", excerpt(axes.back().name), op.name);
    const auto is_same = [&](const study::Axis& axis) { return axis.name == axes.back().name; };
    if (std::ranges::count_if(axes, is_same) > 1)
      throw usage_error("--sweep {} stands twice", excerpt(axes.back().name));
  }
  return axes;
}

}  // namespace

bool times(const Subject& subject, const Sweep& sweep, const Options& options) {
  return sweep.op == subject.op->name && sweep.device == subject.path->device &&
         std::ranges::count(subject.path->dtypes, sweep.dtype) != 0 &&
         (!options.dtype || sweep.dtype == *options.dtype);
}

std::vector<Sweep> swept(const std::vector<SelectedPath>& paths, const std::vector<Sweep>& sweeps,
                         const Options& options) {
  std::vector<Sweep> problems;
  std::set<std::tuple<std::string_view, DeviceKind, DType>> done;
  for (Sweep first : sweeps) {
    const auto is_like = [&](const Sweep& other) {
      return other.op == first.op && other.device == first.device && other.dtype == options.dtype;
    };
    if (options.dtype && std::ranges::none_of(sweeps, is_like)) first.dtype = *options.dtype;
    const auto times_it = [&](const SelectedPath& path) { return times(path.subject, first, options); };
    const auto path = std::ranges::find_if(paths, times_it);
    if (path == paths.end() || !done.insert({first.op, first.device, first.dtype}).second) continue;
    const Op& op = *path->subject.op;
    const std::vector<study::Axis> axes = axes_of(op, options.sizes);
    for (const study::Point& point : study::points_of(axes)) {
      Sweep problem = first;
      for (size_t i = 0; i < axes.size(); ++i)
        problem.dims.set(axes[i].name, static_cast<int64_t>(*axes[i].values[point[i]].number));
      require_dims(op, problem.dims);
      if (!options.max_elements || largest_tensor(op, problem.dims) <= *options.max_elements)
        problems.push_back(problem);
    }
  }
  if (problems.empty() && !done.empty())
    throw usage_error("--max-elements {} leaves out all sizes of --sweep", *options.max_elements);
  return problems;
}

}  // namespace assay
