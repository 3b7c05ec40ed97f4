// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/rows.h"

#include <unistd.h>

namespace assay::trimul::oracle {

std::shared_ptr<Row> Rows::find(size_t index) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Row>& row = rows_[index];
  if (row) return row;
  row = std::make_shared<Row>();
  if (kept_.size() < most_) {
    kept_.push_back(index);
  } else {
    size_t& dropped = kept_[random_() % kept_.size()];
    rows_[dropped].reset();
    dropped = index;
  }
  return row;
}

size_t rows_within(double part, int64_t nodes, int64_t hidden, size_t columns) {
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto entries = static_cast<double>(nodes) * static_cast<double>(hidden);
  const double row =
      entries * kBytesOfRow + static_cast<double>(nodes) * static_cast<double>(columns * sizeof(float));
  return static_cast<size_t>(part * memory / std::max(row, 1.0));
}

}  // namespace assay::trimul::oracle
