// SPDX-License-Identifier: Apache-2.0
// The parts of report.html that do not depend on the record.
#pragma once

#include <string_view>

namespace assay {

extern const std::string_view kStylesheet;  // html_style.cpp
extern const std::string_view kScript;      // html_script.cpp
extern const std::string_view kGlossary;    // html_glossary.cpp

}  // namespace assay
