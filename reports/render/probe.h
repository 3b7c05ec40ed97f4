// SPDX-License-Identifier: Apache-2.0
// What `assay probe` found, as text, as JSON (reports/schema/assay.probe-1.schema.json) and as
// pictures.
#pragma once

#include <string>
#include <vector>

#include "probe/probe.h"
#include "reports/record/record.h"
#include "reports/store/files.h"

namespace assay {

struct ProbedPath {
  std::string op, path;
  std::string device;  // "cpu", "cuda:0"
  std::string model;   // "NVIDIA H200"
  std::vector<Probed> sums;
};

// In at most `width` columns.
std::string render_probed(const ProbedPath& path, int width);

std::string probe_json(const std::vector<ProbedPath>& paths, const ToolRecord& tool, uint64_t seed);

// probe.json, probe.md and a picture of each tree, to write into `folder`.
std::vector<NamedContent> probe_files(const std::vector<ProbedPath>& paths, const ToolRecord& tool,
                                      uint64_t seed, const std::filesystem::path& folder);

}  // namespace assay
