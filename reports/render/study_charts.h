// SPDX-License-Identifier: Apache-2.0
// The charts of study.html: inline SVG.
#pragma once

#include <string>
#include <vector>

#include "study/findings.h"

namespace assay {

struct StudyChart {
  std::string id, title, note;
  std::string content;  // HTML
};

// Error against time, error against each axis with its fit, digits over two axes, what each site
// adds, and distances from the computed and the exact value. What has no data is left out.
std::vector<StudyChart> charts_of(const study::Study& study, const std::vector<study::Summary>& summaries);

}  // namespace assay
