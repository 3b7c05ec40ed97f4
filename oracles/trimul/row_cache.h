// SPDX-License-Identifier: Apache-2.0
// left or right of trimul by first nodes, as many at once as the memory has room for.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "oracles/trimul/stages.h"

namespace assay::trimul::oracle {

// Of N rows at most `most` are kept. Then one of them is dropped at random: a sample of edges asks
// for all rows again and again in the same order, and the one that was not used for longest would
// be the next one.
class RowCache {
 public:
  RowCache(size_t count, size_t most) : rows_(count), most_(std::max<size_t>(most, 1)) {}

  size_t size() const { return rows_.size(); }
  // Calls fill(row) unless the row is kept.
  template <class Fill>
  std::shared_ptr<const Row> get(size_t index, const Fill& fill) {
    const std::shared_ptr<Row> row = find(index);
    std::call_once(row->once, [&] { fill(*row); });
    return row;
  }

 private:
  std::shared_ptr<Row> find(size_t index);

  std::mutex mutex_;
  std::vector<std::shared_ptr<Row>> rows_;
  std::vector<size_t> kept_;
  size_t most_;
  std::minstd_rand random_;
};

}  // namespace assay::trimul::oracle
