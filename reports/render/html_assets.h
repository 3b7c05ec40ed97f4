// SPDX-License-Identifier: Apache-2.0
// The parts of report.html that do not depend on the record: files beside this one, embedded by the
// build.
#pragma once

#include <string_view>

namespace assay {

extern const std::string_view kStylesheet;  // report.css
extern const std::string_view kScript;      // report.js
extern const std::string_view kGlossary;    // glossary.html

}  // namespace assay
