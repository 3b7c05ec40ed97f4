// SPDX-License-Identifier: Apache-2.0
// The project of an op with one formula: what `assay new` writes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reports/scaffold/formula.h"

namespace assay {

struct ProjectFile {
  std::string path;  // "kernels/gemm/gemm.h"
  std::string text;
};

// The files project/*.in, filled in. Throws Error (usage) for an op, a tensor or an index whose
// name they use themselves.
std::vector<ProjectFile> project_files(std::string_view op, const Formula& formula);

}  // namespace assay
