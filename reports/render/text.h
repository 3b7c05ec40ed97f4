// SPDX-License-Identifier: Apache-2.0
// How reports print numbers and text from outside.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "bench/core/ceilings.h"
#include "kernels/core/printable.h"
#include "properties/core/case.h"

namespace assay {

// printable(), for element content and attribute values of HTML and XML.
std::string escape_markup(std::string_view text);
// At most `bytes` bytes of the text, with an ellipsis if some is cut off. No character is cut in
// two.
std::string clipped(std::string text, size_t bytes);

// [bytes] Of a reason on a terminal. The other reports have all of it.
inline constexpr size_t kReasonOnTerminal = 1000;

// [columns] That a text takes. Every character that we print is one column wide.
size_t columns_of(std::string_view text);
// The text in lines of at most `width` columns, as far as its words allow; all but the first are
// indented.
std::string wrapped(std::string_view text, int width, int indent = 0);
// The same for a text that begins after `indent` columns. It is broken after its semicolons first.
std::string in_lines(std::string_view text, int width, int indent);

// Three significant digits: "0.873", "12300", "3.1e-08", "inf". A dash if absent.
std::string format_number(std::optional<double> value);

std::string format_time(double ns);            // "1.23 ms"
std::string format_rate(double bytes_per_s);   // "4250 GB/s"
std::string format_flops(double flops_per_s);  // "51.2 TFLOP/s"
// The rate for each kind of factor, "51.2 TFLOP/s f32, 704 TFLOP/s f16", or "not measured".
std::string format_products(const std::optional<Ceilings>& ceilings);
std::string format_bytes(int64_t bytes);  // "141 GB": decimal units, as in rates
// "93.1 %", "under 0.001 %". A dash if absent.
std::string format_percent(std::optional<double> fraction);
std::string format_count(int64_t count);                   // "12,345"
std::string plural(int64_t count, std::string_view noun);  // "1 case", "2 cases"

// A ratio that may reach 1 but should not exceed it. Less than 1 is never shown as 1.00. A dash if
// absent.
std::string format_ratio(std::optional<double> ratio);

std::string join_some(const std::set<std::string>& names);  // "a, b, c and 3 more"
std::string format_dims(const Dims& dims);                  // "b=8 t=2048 d=2048 w=4"

// Text for a POSIX shell: always in quotes, or only where it needs them.
std::string shell_quoted(std::string_view text);
std::string shell_word(std::string_view text);

// The command that judges the case again. `program` is how its user called it.
std::string replay_command(std::string_view program, const Case& which);

}  // namespace assay
