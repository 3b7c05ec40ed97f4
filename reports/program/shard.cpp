// SPDX-License-Identifier: Apache-2.0
#include "reports/program/shard.h"

#include <charconv>
#include <cstdlib>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/core/printable.h"

namespace assay {
namespace {

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// An empty variable counts as one that is not set.
std::optional<int64_t> number_in(const char* name) {
  const char* const text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  if (const auto number = whole_number(text)) return number;
  throw usage_error("--shard auto: {} is {}, which is no integer", name, excerpt(text));
}

struct ShardVariables {
  const char *index, *count;
  int64_t first;  // index
};
constexpr ShardVariables kSystems[] = {{"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", 0},
                                       {"GTEST_SHARD_INDEX", "GTEST_TOTAL_SHARDS", 0},
                                       {"CI_NODE_INDEX", "CI_NODE_TOTAL", 1},
                                       {"BUILDKITE_PARALLEL_JOB", "BUILDKITE_PARALLEL_JOB_COUNT", 0}};

std::optional<Shard> shard_of(const ShardVariables& system) {
  std::optional<int64_t> index = number_in(system.index);
  const std::optional<int64_t> count = number_in(system.count);
  if (!index && !count) return std::nullopt;
  if (!index || !count) {
    throw usage_error("--shard auto: {} is set, but {} is not", index ? system.index : system.count,
                      index ? system.count : system.index);
  }
  if (&system == kSystems) {  // an array may begin anywhere
    const int64_t least = number_in("SLURM_ARRAY_TASK_MIN").value_or(0);
    const int64_t step = number_in("SLURM_ARRAY_TASK_STEP").value_or(1);
    if (step < 1 || *index < least || (*index - least) % step != 0)
      throw usage_error("--shard auto: {} {} is not in the array from {} by {}", system.index, *index, least,
                        step);
    index = (*index - least) / step;
  }
  const Shard shard{.number = *index - system.first + 1, .count = *count};
  if (shard.number < 1 || shard.number > shard.count) {
    throw usage_error("--shard auto: {} is {}, but {} is {}", system.index, *number_in(system.index),
                      system.count, *count);
  }
  return shard;
}

Shard shard_from_environment() {
  std::optional<Shard> found;
  const char* from = nullptr;
  for (const ShardVariables& system : kSystems) {
    const std::optional<Shard> shard = shard_of(system);
    if (!shard) continue;
    if (found && text_of(*found) != text_of(*shard)) {
      throw usage_error("--shard auto: {} says {}, but {} says {}", from, text_of(*found), system.index,
                        text_of(*shard));
    }
    found = shard;
    from = system.index;
  }
  if (!found) {
    throw usage_error("--shard auto: none of {}, {}, {}, {} is set", kSystems[0].index, kSystems[1].index,
                      kSystems[2].index, kSystems[3].index);
  }
  return *found;
}

}  // namespace

std::string text_of(const Shard& shard) {
  return fmt::format("{}/{}", shard.number, shard.count);
}

std::vector<std::string> missing_shards(const std::set<int64_t>& numbers, int64_t count) {
  constexpr size_t kMost = 20;
  std::vector<std::string> missing;
  const int64_t absent = count - std::ssize(numbers);
  for (int64_t number = 1; number <= count && missing.size() < kMost; ++number)
    if (numbers.count(number) == 0) missing.push_back(text_of({.number = number, .count = count}));
  if (absent > std::ssize(missing)) missing.push_back(fmt::format("{} others", absent - std::ssize(missing)));
  return missing;
}

Shard parse_shard(std::string_view option, const std::string& text) {
  if (text == "auto") return shard_from_environment();
  const size_t slash = text.find('/');
  const auto i = whole_number(text.substr(0, slash));
  const auto n = slash == std::string::npos ? std::nullopt : whole_number(text.substr(slash + 1));
  if (!i || !n || *i < 1 || *i > *n)
    throw usage_error("{} {} is not i/n with 1 <= i <= n, or auto", option, excerpt(text));
  return {.number = *i, .count = *n};
}

}  // namespace assay
