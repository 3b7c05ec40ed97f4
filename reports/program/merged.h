// SPDX-License-Identifier: Apache-2.0
// The record of a whole run, from those of its shards.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

struct Merged {
  Record record;                     // without meaning if a shard is missing
  std::vector<std::string> missing;  // "2/4"
};

// Cases stand in the order of the whole run, and so does all that it would have said of them. Two
// things are said by each shard of its own part: at how many failures a path is left, and the law
// over all cases of a path. Seconds are added up. The ceilings of a device are those of the first
// shard.
// Throws Error (usage) unless the records are shards of one run: of one program, on devices of the
// same models and drivers, with the same options but --shard, each shard once.
Merged merge_shards(std::vector<Record> shards);

}  // namespace assay
