// SPDX-License-Identifier: Apache-2.0
// The failures of a record, gathered so that a person can use them: a block for each path and kind
// of failure, with the smallest case.
#pragma once

#include <string>
#include <vector>

#include "reports/record/record.h"

namespace assay {

// All cases of one path on one device that fail in one way. Points into the record.
struct FailureBlock {
  std::string op;
  std::string path;
  std::string device;
  VerdictKind kind;
  int64_t cases = 0;   // that fail in this way
  int64_t judged = 0;  // all cases of the path with a pass or a failure
  // The smallest one, of those that fail alone if there are any.
  const CaseRecord* smallest = nullptr;
};

std::vector<FailureBlock> failure_blocks(const Record& record);  // in the order of the record

// The name that links lead to: "failure-3" for the third block.
std::string anchor_of(size_t block);
// That of the block with these cases; empty if there is none.
std::string anchor_of(const std::vector<FailureBlock>& blocks, std::string_view op, std::string_view path,
                      std::string_view device, VerdictKind kind);

// "37 of 61 judged cases"
std::string describe(const FailureBlock& block);

// The command that judges the case again, by the name that the program was called by. Of outputs
// that somebody else computed, `judge` on their files.
std::string replay_command(const Record& record, const CaseRecord& item);

}  // namespace assay
