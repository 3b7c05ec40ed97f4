// SPDX-License-Identifier: Apache-2.0
#include "study/paired.h"

#include <cmath>
#include <map>

#include "kernels/core/printable.h"
#include "study/statistics.h"

namespace assay::study {
namespace {

std::string key_of(const Study& study, const Cell& cell) {
  return fmt::format("{} {} {}", cell.point, text_of(study.axes, study.points[cell.point]), cell.draw);
}

using Test = std::pair<std::string, std::string>;  // the label of a contender, and an output

// The errors of each test by the key of the cell. Infinite where there is none, or where an element
// is not finite or outside its ball.
std::map<Test, std::map<std::string, double>> errors_in(const Study& study) {
  std::map<Test, std::map<std::string, double>> errors;
  for (const Cell& cell : study.cells) {
    const bool is_broken = cell.errors.nonfinite > 0 || cell.errors.outside > 0;
    errors[{study.label(cell.contender), study.outputs[cell.output]}][key_of(study, cell)] =
        is_broken ? HUGE_VAL : cell.errors.normwise.value_or(HUGE_VAL);
  }
  return errors;
}

}  // namespace

std::vector<Paired> compare(const Study& before, const Study& after) {
  const auto require_same = [](std::string_view what, const auto& a, const auto& b) {
    if (a != b) throw usage_error("the studies have different draws: their {}s are {} and {}", what, a, b);
  };
  require_same("op", before.op, after.op);
  require_same("seed", before.seed, after.seed);
  const auto errors_before = errors_in(before), errors_after = errors_in(after);
  std::vector<Paired> all;
  int64_t common = 0;  // cells
  for (const auto& [test, cells] : errors_before) {
    const auto found = errors_after.find(test);
    Paired paired{.contender = test.first, .output = test.second};
    if (found == errors_after.end()) paired.reading = "gone";
    std::vector<double> ratios;
    for (const auto& [key, error] : cells) {
      const bool is_there = found != errors_after.end() && found->second.contains(key);
      const double other = is_there ? found->second.at(key) : HUGE_VAL;
      if (is_there) ++common;
      if (other < error) ++paired.better;
      if (other > error) ++paired.worse;
      if (other == error) ++paired.equal;
      if (other > error && other == HUGE_VAL) ++paired.lost;
      if (error > 0 && std::isfinite(error) && std::isfinite(other)) ratios.push_back(other / error);
    }
    if (!ratios.empty()) paired.ratio = quantile(std::move(ratios), 0.5);
    paired.probability = sign_test(paired.better + paired.worse, paired.worse);
    all.push_back(paired);
  }
  if (common == 0) throw usage_error("the studies have no cell in common");
  for (Paired& paired : all) {
    if (!paired.reading.empty()) continue;
    const bool is_clear = paired.probability < 0.01 / static_cast<double>(all.size());
    const bool is_equal = paired.better + paired.worse == 0;
    paired.reading = paired.lost > 0                ? "worse"
                     : is_equal                     ? "equal"
                     : !is_clear                    ? "unclear"
                     : paired.worse > paired.better ? "worse"
                                                    : "better";
  }
  return all;
}

}  // namespace assay::study
