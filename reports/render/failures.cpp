// SPDX-License-Identifier: Apache-2.0
#include "reports/render/failures.h"

#include <map>
#include <tuple>

#include "reports/render/text.h"

namespace assay {
namespace {

// Whether a failure is better to look at than another of its kind: those that fail alone come
// first, then those that need what ran before, then those of which that is not known.
bool is_better(const CaseRecord& a, const CaseRecord& b) {
  const auto rank = [](const CaseRecord& item) {
    const std::optional<bool>& alone = item.verdict.fails_alone;
    return !alone ? 2 : *alone ? 0 : 1;
  };
  return rank(a) != rank(b) ? rank(a) < rank(b) : is_smaller(a.which, b.which);
}

}  // namespace

std::vector<FailureBlock> failure_blocks(const Record& record) {
  using PathKey = std::tuple<std::string, std::string, std::string>;
  std::map<PathKey, int64_t> judged;
  std::map<std::pair<PathKey, VerdictKind>, size_t> places;
  std::vector<FailureBlock> blocks;
  for (const CaseRecord& item : record.cases) {
    const VerdictKind kind = item.verdict.kind;
    const PathKey path(item.which.op, item.which.path, item.device);
    const bool fails = is_failure(kind);
    if (fails || kind == VerdictKind::kPass) ++judged[path];
    if (!fails) continue;
    const auto [place, is_new] = places.emplace(std::pair(path, kind), blocks.size());
    if (is_new) {
      blocks.push_back({.op = item.which.op,
                        .path = item.which.path,
                        .device = item.device,
                        .kind = kind,
                        .smallest = &item});
    }
    FailureBlock& block = blocks[place->second];
    ++block.cases;
    if (is_better(item, *block.smallest)) block.smallest = &item;
  }
  for (FailureBlock& block : blocks) block.judged = judged[{block.op, block.path, block.device}];
  return blocks;
}

std::string anchor_of(size_t block) {
  return fmt::format("failure-{}", block + 1);
}

std::string anchor_of(const std::vector<FailureBlock>& blocks, std::string_view op, std::string_view path,
                      std::string_view device, VerdictKind kind) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    const FailureBlock& block = blocks[i];
    if (block.op == op && block.path == path && block.device == device && block.kind == kind)
      return anchor_of(i);
  }
  return "";
}

std::string describe(const FailureBlock& block) {
  return fmt::format("{} of {}", format_count(block.cases), plural(block.judged, "judged case"));
}

std::string replay_command(const Record& record, const CaseRecord& item) {
  const std::string program = record.command.empty() ? "assay" : record.command.front();
  if (record.given) {
    const auto& [in, got] = *record.given;
    return fmt::format("{} judge {}{}{} --got {}", shell_word(program), shell_quoted(item.which.to_string()),
                       in.empty() ? "" : " --in ", in.empty() ? "" : shell_word(in), shell_word(got));
  }
  // Without the option a path runs on the first device of its kind.
  const bool is_first = item.device == "cpu" || item.device == "cuda:0";
  return replay_command(program, item.which) + (is_first ? "" : " --device " + shell_word(item.device)) +
         (record.timeout.empty() ? "" : " --timeout " + shell_word(record.timeout));
}

}  // namespace assay
