// SPDX-License-Identifier: Apache-2.0
// Text from records as Markdown. All of it is harmless there.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay::markdown {

// Text for a table or paragraph: none of it is markup in Markdown or HTML. At most 600 bytes.
std::string escape(std::string_view text);
// Text as a code span, inside or outside a table. A backtick would end the span, a bar the cell.
std::string code(std::string_view text);
// As many rows as fit into `share` bytes, and the number of the others, which stand in `elsewhere`.
std::string rows_within(const std::vector<std::string>& rows, size_t share,
                        std::string_view elsewhere = "report.html");

}  // namespace assay::markdown
