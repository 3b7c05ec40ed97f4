// SPDX-License-Identifier: Apache-2.0
// Records to render. One of them has everything that a run can leave.
#pragma once

#include <string_view>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// Two ops on a CPU and a GPU, every verdict, cold and warm times, a time below the floor, and a
// path that was not run. There are `cases` passing cases per path and dtype.
Record example_record(int cases = 24);

// Text that ends elements, attributes, cells, scripts and CDATA, moves a terminal's cursor and is
// not UTF-8.
inline constexpr std::string_view kHostileText =
    "a<b> & \"q\" 'q' ]]> </script><script>alert(1)</script> <!-- | `tick` \\ \x01 \x1b[2J \xff \xc3( "
    "\xed\xa0\x80 é ∞";

// The same record, with kHostileText in every string that a user, a path or a machine can choose.
Record hostile_record();

// Two specimens, of which one is caught, and one that was not judged.
Record specimens_record();

// A run that was interrupted in one of 1414 cases, on a device without ceilings.
Record interrupted_record();

// Unusual records that every rendering must take.
std::vector<Record> odd_records();

// A run that judged one case and timed none.
Record one_passing_case(double error_over_bound, double rms_over_allowed);

size_t count(std::string_view text, std::string_view part);  // how often `part` occurs
bool has(std::string_view text, std::string_view part);

}  // namespace assay
