// SPDX-License-Identifier: Apache-2.0
// Records to render: one with everything in it that a run can leave.
#pragma once

#include "reports/record/record.h"

namespace assay {

// Two ops on a CPU and a GPU; every verdict; cold and warm times; a time below the floor; a path that was not
// run. `cases` passing cases per path and dtype.
Record example_record(int cases = 24);

// Text that ends elements, attributes, cells, scripts and CDATA, moves a terminal's cursor and is not UTF-8.
inline constexpr std::string_view kHostileText =
    "a<b> & \"q\" 'q' ]]> </script><script>alert(1)</script> <!-- | `tick` \\ \x01 \x1b[2J \xff \xc3( "
    "\xed\xa0\x80 é ∞";

// The same record with that text in every string that a user, a path or a machine can choose.
Record hostile_record();

}  // namespace assay
