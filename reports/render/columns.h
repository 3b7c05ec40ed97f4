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
  int importance;  // on a narrow terminal the least important go first
  std::vector<std::string> cells;
  std::vector<std::string_view> colours;  // one per cell, or empty
};

size_t width_of(const std::vector<Column>& columns);  // [columns] of the terminal

// A line of titles and a line for each row; empty without rows. Columns in which every cell is a
// dash are left out, and then the least important ones until the rest fits `width`. Colours are
// used only if asked for.
std::string align_columns(std::vector<Column> columns, bool colour, int width);

}  // namespace assay
