// SPDX-License-Identifier: Apache-2.0
#include "kernels/core/did_you_mean.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace assay {
namespace {

// The least number of letters to change, add, leave out or swap with a neighbour: the optimal
// string alignment distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known) {
  constexpr size_t kLongest = 100;
  if (typed.size() > kLongest) return "";
  const auto nearest =
      std::ranges::min_element(known, {}, [&](const std::string& word) { return distance(typed, word); });
  if (nearest == known.end() || distance(typed, *nearest) > std::max(typed.size(), nearest->size()) / 3)
    return "";
  return "; did you mean " + *nearest + "?";
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& known,
                         std::string_view otherwise) {
  const std::string near = did_you_mean(typed, known);
  return near.empty() ? fmt::format("; {} {}", otherwise, fmt::join(known, ", ")) : near;
}

}  // namespace assay
