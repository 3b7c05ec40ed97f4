// SPDX-License-Identifier: Apache-2.0
// Which part of a run this process makes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

struct Shard {
  int64_t number, count;  // i and n, with 1 <= i <= n
};

// "i/n", or "auto": what the variables of one of these say:
//   Slurm      SLURM_ARRAY_TASK_ID - _MIN, by _STEP, from 0   SLURM_ARRAY_TASK_COUNT
//   GTest      GTEST_SHARD_INDEX, from 0                      GTEST_TOTAL_SHARDS
//   GitLab     CI_NODE_INDEX, from 1                          CI_NODE_TOTAL
//   Buildkite  BUILDKITE_PARALLEL_JOB, from 0                 BUILDKITE_PARALLEL_JOB_COUNT
// Throws Error (usage) that names the option for any other text. For "auto" it also throws if none
// of them is set, one by half, or two that say different things.
Shard parse_shard(std::string_view option, const std::string& text);
std::string text_of(const Shard& shard);  // "i/n"
// The shards of `count` that are not in `numbers`: "2/4". Lists at most 20, then says how many more
// there are.
std::vector<std::string> missing_shards(const std::set<int64_t>& numbers, int64_t count);

}  // namespace assay
