// SPDX-License-Identifier: Apache-2.0
#include "reports/program/merged.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "kernels/core/printable.h"
#include "properties/core/verdict.h"
#include "reports/program/shard.h"
#include "reports/record/journal.h"

namespace assay {
namespace {

constexpr const char* kOption = "--shard";

Shard shard_of(const Record& run) {
  const auto option = run.options.find(kOption);
  if (option == run.options.end())
    throw usage_error("the run of {} is no shard: it had no {}", excerpt(run.started), kOption);
  return parse_shard(kOption, option->second);
}

std::string without_shard(const Record& run) {
  std::string text;
  for (const auto& [name, value] : run.options)
    if (name != kOption) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  return text;
}

std::string tool_of(const Record& run) {
  const ToolRecord& tool = run.tool;
  return fmt::format("{} {}{} {} {}", tool.version, tool.git, tool.dirty ? " with changes" : "",
                     tool.compiler, tool.build);
}

std::string devices_of(const Record& run) {
  std::string text;
  for (const DeviceRecord& device : run.machine.devices) {
    const DeviceInfo& info = device.info;
    text += fmt::format("{}{} {} {} {}", text.empty() ? "" : ", ", info.name(), info.model, info.driver,
                        info.units);
  }
  return text;
}

void require_one_run(const Record& first, const Record& other) {
  const auto compare = [&](std::string_view what, const std::string& one, const std::string& another) {
    if (one == another) return;
    throw usage_error("the runs of {} and {} are not shards of one run: their {} are {} and {}",
                      excerpt(first.started), excerpt(other.started), what, excerpt(one), excerpt(another));
  };
  compare("options", without_shard(first), without_shard(other));
  compare("programs", tool_of(first), tool_of(other));
  compare("devices", devices_of(first), devices_of(other));
}

// A run draws cases of one path after the other, and then times their problems.
using Group = std::tuple<std::string, std::string, std::string, bool>;
Group group_of(const CaseRecord& item) {
  return {item.device, item.which.op, item.which.path, item.problem.has_value()};
}

void sort_as_one_run(std::vector<CaseRecord>& cases) {
  std::map<Group, size_t> order;  // of the first shard, which has a case of each
  for (const CaseRecord& item : cases) order.emplace(group_of(item), order.size());
  std::ranges::stable_sort(cases, {}, [&](const CaseRecord& item) {
    return std::pair(order.at(group_of(item)), item.problem.value_or(item.drawn.value_or(0)));
  });
}

// One run would have ended with the first case that catches a specimen.
void drop_after_caught(std::vector<CaseRecord>& cases) {
  std::set<Group> caught;
  std::erase_if(cases, [&](const CaseRecord& item) {
    if (caught.count(group_of(item)) > 0) return true;
    if (is_failure(item.verdict.kind)) caught.insert(group_of(item));
    return false;
  });
}

void add_machine(MachineRecord& machine, const MachineRecord& other) {
  if (machine.host_name != other.host_name) machine.host_name.clear();
  for (DeviceRecord& device : machine.devices) {
    const auto same = std::ranges::find(other.devices, device.info.name(),
                                        [](const DeviceRecord& one) { return one.info.name(); });
    if (!device.ceilings && same != other.devices.end()) device = *same;
  }
}

void add_shard(Record& whole, Record shard) {
  whole.complete &= shard.complete;
  whole.started = std::min(whole.started, shard.started);
  whole.seconds += shard.seconds;
  if (whole.planned && shard.planned) *whole.planned += *shard.planned;
  if (!whole.running) whole.running = shard.running;
  if (shard.conditions) add_conditions(whole.conditions, *std::move(shard.conditions));
  add_machine(whole.machine, shard.machine);
  std::ranges::move(shard.sentinels, std::back_inserter(whole.sentinels));
  std::ranges::move(shard.cases, std::back_inserter(whole.cases));
}

// The words of a command line without --shard.
std::vector<std::string> without_shard(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i] == kOption) {
      ++i;
    } else if (!command[i].starts_with(std::string(kOption) + "=")) {
      words.push_back(command[i]);
    }
  }
  return words;
}

}  // namespace

Merged merge_shards(std::vector<Record> shards) {
  if (shards.empty()) throw usage_error("there is nothing to merge");
  std::ranges::stable_sort(shards, {}, [](const Record& run) { return shard_of(run).number; });
  const int64_t count = shard_of(shards.front()).count;
  std::set<int64_t> numbers;
  for (const Record& run : shards) {
    require_one_run(shards.front(), run);
    const Shard shard = shard_of(run);
    if (shard.count != count)
      throw usage_error("shards {} and {} are not of one run", text_of(shard_of(shards.front())),
                        text_of(shard));
    if (!numbers.insert(shard.number).second) throw usage_error("shard {} is there twice", text_of(shard));
  }
  Merged merged{.record = std::move(shards.front()), .missing = missing_shards(numbers, count)};
  Record& whole = merged.record;
  whole.options.erase(kOption);
  whole.command = without_shard(whole.command);
  for (size_t i = 1; i < shards.size(); ++i) add_shard(whole, std::move(shards[i]));
  sort_as_one_run(whole.cases);
  if (!whole.specimens.empty()) drop_after_caught(whole.cases);
  return merged;
}

}  // namespace assay
