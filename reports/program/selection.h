// SPDX-License-Identifier: Apache-2.0
// Which paths a command line asks for, and on which devices they run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/device.h"
#include "properties/core/registry.h"
#include "reports/program/options.h"
#include "reports/record/record.h"

namespace assay {

// The devices that `--device` names. Throws Error (usage) for another text, Error (device) if a named one is
// absent; `all` takes what is there.
std::vector<std::unique_ptr<Device>> open_devices(std::string_view wanted);

struct SelectedPath {
  Subject subject;
  Device* device;  // null if this machine has none of its kind
};

// Whether any of the globs matches "op" or "op/path"; no globs match all.
bool matches(const std::vector<std::string>& globs, std::string_view op, std::string_view path);

// The filters that match nothing: no path, or with --specimens no specimen.
std::vector<std::string> unmatched_filters(const Registry& registry, const Options& options);

// All paths that the filters select, in the order of the registry.
std::vector<SelectedPath> select_paths(const Registry& registry, const Options& options,
                                       const std::vector<std::unique_ptr<Device>>& devices);

// The case with its dimensions in the op's order, so that it prints as one line however it was typed. Throws
// Error (usage) unless they are the op's.
Case in_order(const Op& op, Case which);

// The device for one case. Throws Error (device) if it is absent.
std::unique_ptr<Device> open_device_for(const Path& path, std::string_view wanted);

}  // namespace assay
