// SPDX-License-Identifier: Apache-2.0
// What the script of report.html shows for a case when its row is opened.
#pragma once

#include <string>

#include "reports/record/record.h"

namespace assay {

// A script element that holds the details of all cases as JSON.
std::string embedded_details(const Record& record);

}  // namespace assay
