// SPDX-License-Identifier: Apache-2.0
#include "study/paired.h"

#include <cmath>
#include <map>

#include "kernels/core/printable.h"
#include "study/statistics.h"

namespace assay::study {
namespace {

std::string key_of(const Study& study, const Cell& cell) {
  return fmt::format("{} {} {} {}", cell.point, text_of(study.axes, study.points[cell.point]),
                     study.outputs[cell.output], cell.draw);
}

// The errors of each contender by its label, and then by the key of the cell.
std::map<std::string, std::map<std::string, double>> errors_in(const Study& study) {
  std::map<std::string, std::map<std::string, double>> errors;
  for (const Cell& cell : study.cells) {
    if (cell.errors.normwise)
      errors[study.label(cell.contender)][key_of(study, cell)] = *cell.errors.normwise;
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
  for (const auto& [label, cells] : errors_before) {
    const auto found = errors_after.find(label);
    if (found == errors_after.end()) continue;
    Paired paired{.contender = label};
    std::vector<double> ratios;
    for (const auto& [key, error] : cells) {
      const auto other = found->second.find(key);
      if (other == found->second.end()) continue;
      if (other->second < error) ++paired.better;
      if (other->second > error) ++paired.worse;
      if (other->second == error) ++paired.equal;
      if (error > 0) ratios.push_back(other->second / error);
    }
    if (paired.better + paired.worse + paired.equal == 0) continue;
    if (!ratios.empty()) paired.ratio = quantile(std::move(ratios), 0.5);
    paired.probability = sign_test(paired.better + paired.worse, paired.worse);
    all.push_back(paired);
  }
  if (all.empty()) throw usage_error("the studies have no cell in common");
  for (Paired& paired : all) {
    const bool is_clear = paired.probability < 0.01 / static_cast<double>(all.size());
    const bool is_equal = paired.better + paired.worse == 0;
    paired.reading = is_equal                       ? "equal"
                     : !is_clear                    ? "unclear"
                     : paired.worse > paired.better ? "worse"
                                                    : "better";
  }
  return all;
}

}  // namespace assay::study
