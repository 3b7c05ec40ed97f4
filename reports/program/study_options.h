// SPDX-License-Identifier: Apache-2.0
// The options of `study` alone.
#pragma once

#include <string>
#include <vector>

#include "study/study.h"

namespace CLI {
class App;
}

namespace assay {

// As they were typed.
struct StudyOptions {
  std::string paths;                 // globs with commas between them
  std::vector<std::string> sweeps;   // "n=64:2048:x2"
  std::vector<std::string> recipes;  // "mine=cuda.bf16:hidden=f32"
  std::string data;                  // "normal,outliers:1e-3:10"
  std::string draws = "8";
  std::string target = "normwise=1e-3";
  std::string worst_element;
  bool no_time = false;
};

void add_study_options(CLI::App& sub, StudyOptions& options);

// These throw Error (usage) that names the option.
study::Target target_of(const StudyOptions& options);
int64_t draws_of(const StudyOptions& options);
std::vector<std::string> globs_of(const StudyOptions& options);
// If none is given: the offset of the op's first input, and the scale of the others.
std::vector<study::Axis> axes_of(const Op& op, const StudyOptions& options, bool has_file);

}  // namespace assay
