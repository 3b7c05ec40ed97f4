// SPDX-License-Identifier: Apache-2.0
#include "oracles/trimul/row_cache.h"

namespace assay::trimul::oracle {

std::shared_ptr<Row> RowCache::find(size_t index) {
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

}  // namespace assay::trimul::oracle
