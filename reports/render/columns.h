// SPDX-License-Identifier: Apache-2.0
// Aligned columns for a terminal.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

inline constexpr std::string_view kGreen = "\x1b[32m";
inline constexpr std::string_view kRed = "\x1b[31m";

struct Column {
  std::string title;
  bool right;      // numbers are aligned to the right
  int importance;  // the least important column goes first when the terminal is narrow
  std::vector<std::string> cells;
  std::vector<std::string_view> colours;  // one per cell, or none at all
};

// A line of titles and one of each row; nothing without rows. The least important columns are left out until the rest fits
// `width`. Colours are used only if asked for.
std::string align_columns(std::vector<Column> columns, bool colour, int width);

}  // namespace assay
