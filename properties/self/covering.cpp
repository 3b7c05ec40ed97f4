// SPDX-License-Identifier: Apache-2.0
#include "properties/self/covering.h"

#include <numeric>

namespace assay::test {
namespace {

// Which pairs still have to meet.
class OpenPairs {
 public:
  explicit OpenPairs(const std::vector<size_t>& levels) : begins_(levels.size()) {
    std::exclusive_scan(levels.begin(), levels.end(), begins_.begin(), size_t{0});
    count_ = std::accumulate(levels.begin(), levels.end(), size_t{0});
    open_.resize(count_ * count_);
  }
  bool contains(const Pair& pair) const { return open_[at(pair)]; }
  void insert(const Pair& pair) { open_[at(pair)] = true; }
  void erase_those_of(const Row& row) {
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = 0; g < f; ++g) {
        if (row[f] != kUnset && row[g] != kUnset) open_[at({f, row[f], g, row[g]})] = false;
      }
    }
  }
  // How many a row meets if the factor takes this level.
  size_t gained_by(const Row& row, size_t factor, size_t level) const {
    size_t gained = 0;
    for (size_t g = 0; g < row.size(); ++g) {
      if (g != factor && row[g] != kUnset && contains({factor, level, g, row[g]})) ++gained;
    }
    return gained;
  }

 private:
  size_t at(const Pair& p) const {
    const size_t a = begins_[p.factor] + p.level;
    const size_t b = begins_[p.other_factor] + p.other_level;
    return a < b ? b * count_ + a : a * count_ + b;
  }
  std::vector<size_t> begins_;
  size_t count_ = 0;
  std::vector<bool> open_;
};

std::vector<Pair> all_pairs(const std::vector<size_t>& levels) {
  std::vector<Pair> all;
  for (size_t f = 0; f < levels.size(); ++f) {
    for (size_t g = 0; g < f; ++g) {
      for (size_t a = 0; a < levels[f]; ++a) {
        for (size_t b = 0; b < levels[g]; ++b) all.push_back({f, a, g, b});
      }
    }
  }
  return all;
}

Row row_of(const Pair& pair, size_t factors) {
  Row row(factors, kUnset);
  row[pair.factor] = pair.level;
  row[pair.other_factor] = pair.other_level;
  return row;
}

// Ties between levels take turns.
void fill(Row& row, const std::vector<size_t>& levels, const IsPossible& is_possible, const OpenPairs& open,
          size_t turn) {
  for (size_t f = 0; f < levels.size(); ++f) {
    if (row[f] != kUnset) continue;
    size_t best = kUnset;
    size_t most = 0;
    for (size_t i = 0; i < levels[f]; ++i) {
      const size_t level = (turn + i) % levels[f];
      const size_t gained = open.gained_by(row, f, level);
      if (best != kUnset && gained <= most) continue;
      row[f] = level;
      if (is_possible(row)) {
        best = level;
        most = gained;
      }
      row[f] = kUnset;
    }
    row[f] = best;
  }
}

}  // namespace

std::vector<Pair> uncovered_pairs(const std::vector<size_t>& levels, const IsPossible& is_possible,
                                  const std::vector<Row>& rows) {
  OpenPairs open(levels);
  const std::vector<Pair> all = all_pairs(levels);
  for (const Pair& pair : all) {
    if (is_possible(row_of(pair, levels.size()))) open.insert(pair);
  }
  for (const Row& row : rows) open.erase_those_of(row);
  std::vector<Pair> uncovered;
  for (const Pair& pair : all) {
    if (open.contains(pair)) uncovered.push_back(pair);
  }
  return uncovered;
}

std::vector<Row> covering_rows(const std::vector<size_t>& levels, const IsPossible& is_possible) {
  const std::vector<Pair> pairs = uncovered_pairs(levels, is_possible, {});
  OpenPairs open(levels);
  for (const Pair& pair : pairs) open.insert(pair);
  std::vector<Row> rows;
  for (const Pair& pair : pairs) {
    if (!open.contains(pair)) continue;
    Row row = row_of(pair, levels.size());
    fill(row, levels, is_possible, open, rows.size());
    open.erase_those_of(row);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace assay::test
