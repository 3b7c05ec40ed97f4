// SPDX-License-Identifier: Apache-2.0
// Selects the paths that a command line asks for, and the devices on which they run.
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

// The text, if it is all, cpu, cuda or cuda:k; else throws Error (usage), which names its origin.
const std::string& device_name(std::string_view origin, const std::string& wanted);

// The devices that such a text names; `all` takes those present. Throws Error (device) if a named
// device is absent.
std::vector<std::unique_ptr<Device>> open_devices(std::string_view wanted);

struct SelectedPath {
  Subject subject;
  Device* device;  // null if this machine has no such device
};

// Whether any of the globs matches "op" or "op/path". An empty list matches all.
bool matches(const std::vector<std::string>& globs, std::string_view op, std::string_view path);

// What is wrong with each filter that matches no path; with --specimens, no specimen.
std::vector<std::string> unmatched_filters(const Registry& registry, const Options& options);

// All paths that the filters select, in the order of the registry. For `demo` the CPU paths of the
// first op with specimens, and a few of these.
std::vector<SelectedPath> select_paths(const Registry& registry, const Options& options,
                                       const std::vector<std::unique_ptr<Device>>& devices);

// Those of an op: with --hostile the hostile ones, else the others.
std::vector<const Specimen*> specimens_of(const Registry& registry, const Op& op, const Options& options);

// The specimens that the filters select.
std::vector<SelectedPath> select_specimens(const Registry& registry, const Options& options,
                                           const std::vector<std::unique_ptr<Device>>& devices);

// The case with its dimensions in the op's order, so that it prints as the same line however it was
// typed. Throws Error (usage) unless they are the op's dimensions.
Case in_order(const Op& op, Case which);

// The device for one case. Throws Error (device) if it is absent.
std::unique_ptr<Device> open_device_for(const Path& path, std::string_view wanted);

}  // namespace assay
