// SPDX-License-Identifier: Apache-2.0
#include "properties/core/fuzz.h"

#include <set>

#include "kernels/dynamic_conv/dynamic_conv.h"
#include "properties/self/support.h"

namespace assay {
namespace {

using dynamic_conv::kD;
using dynamic_conv::kOut;
using test::cpu;

std::vector<Judged> fuzz_all(const Subject& subject, const FuzzOptions& options) {
  std::vector<Judged> all;
  fuzz(subject, cpu(), options, [&](const Judged& judged) {
    all.push_back(judged);
    return true;
  });
  return all;
}

std::vector<std::string> lines(const std::vector<Judged>& all) {
  std::vector<std::string> lines;
  for (const Judged& judged : all) lines.push_back(judged.which.to_string());
  return lines;
}

Subject production() {
  return registry().subject("dynamic_conv", "cpu");
}

TEST(Fuzz, MostlyDrawsWhatThePathServes) {
  Subject subject = production();
  Path picky = *subject.path;
  picky.unsupported = [](const Dims& dims, DType) {
    return dims[kD] % 2 == 0 ? std::nullopt : std::optional<std::string>("d is odd");
  };
  subject.path = &picky;
  const auto all = fuzz_all(subject, {});
  const auto refused = std::ranges::count_if(
      all, [](const Judged& judged) { return judged.verdict.kind == VerdictKind::kUnsupported; });
  EXPECT_LT(refused, 50);  // of 200; drawn once, about half would be refused
  EXPECT_GT(refused, 0);
}

TEST(Fuzz, SameSeedSameCases) {
  FuzzOptions options;
  options.cases = 30;
  const auto first = lines(fuzz_all(production(), options));
  EXPECT_EQ(first, lines(fuzz_all(production(), options)));
  options.seed = 1;
  EXPECT_NE(first, lines(fuzz_all(production(), options)));
}

TEST(Fuzz, MoreCasesBeginWithTheSame) {
  FuzzOptions options;
  options.cases = 10;
  const auto few = lines(fuzz_all(production(), options));
  options.cases = 20;
  auto more = lines(fuzz_all(production(), options));
  more.resize(10);
  EXPECT_EQ(few, more);
}

TEST(Fuzz, ShardsPartitionTheCases) {
  FuzzOptions options;
  options.cases = 32;
  const auto whole = lines(fuzz_all(production(), options));
  options.shards = 3;
  std::vector<std::string> merged(whole.size());
  size_t judged = 0;
  for (options.shard = 0; options.shard < options.shards; ++options.shard) {
    const auto part = lines(fuzz_all(production(), options));
    judged += part.size();
    for (size_t i = 0; i < part.size(); ++i) {
      merged.at(i * static_cast<size_t>(options.shards) + static_cast<size_t>(options.shard)) = part[i];
    }
  }
  EXPECT_EQ(judged, whole.size());
  EXPECT_EQ(merged, whole);
}

TEST(Fuzz, KeepsToOneDtype) {
  FuzzOptions options;
  options.cases = 20;
  options.dtype = DType::kBF16;
  for (const Judged& judged : fuzz_all(production(), options)) EXPECT_EQ(judged.which.dtype, DType::kBF16);
}

// One in 64, unless somebody asks for small ones.
TEST(Fuzz, DrawsLargeCases) {
  FuzzOptions options;
  options.cases = 128;
  const auto largest_of = [&] {
    std::vector<int64_t> sizes;
    const Subject subject = production();
    const Judging passes = [](const Case&) {
      return Verdict{.kind = VerdictKind::kPass, .reason = "", .outputs = {}};
    };
    fuzz(subject, passes, options, [&](const Judged& judged) {
      sizes.push_back(largest_tensor(*subject.op, judged.which.dims));
      return true;
    });
    return sizes;
  };
  const std::vector<int64_t> sizes = largest_of();
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (i == 63 || i == 127) continue;
    EXPECT_LE(sizes[i], kFuzzElements) << i;
  }
  EXPECT_GT(std::max(sizes[63], sizes[127]), 4 * kFuzzElements);
  options.max_elements = kFuzzElements;
  EXPECT_LE(std::ranges::max(largest_of()), kFuzzElements);
}

TEST(Fuzz, KeepsProblemsAsSmallAsAsked) {
  constexpr int64_t kMost = 512;
  FuzzOptions options;
  options.max_elements = kMost;
  options.cases = 100;
  for (const Op* op : registry().ops()) {
    int64_t largest = 0;
    for (const Judged& judged : fuzz_all(registry().subject(op->name, "cpu"), options)) {
      largest = std::max(largest, largest_tensor(*op, judged.which.dims));
      for (const Step& step : judged.which.state.steps) {
        if (step.kind == StepKind::kAfter) largest = std::max(largest, largest_tensor(*op, step.dims));
      }
    }
    EXPECT_LE(largest, kMost) << op->name;
    EXPECT_GT(largest, kMost / 4) << op->name;
  }
}

TEST(Fuzz, KeepsToItsBudget) {
  FuzzOptions options;
  options.budget = std::chrono::duration<double>(0);
  EXPECT_TRUE(fuzz_all(production(), options).empty());
  options.budget = std::chrono::duration<double>(0.3);
  options.cases = 1;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(fuzz_all(production(), options).size(), 1u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(Fuzz, StopsWhenTheReporterSaysSo) {
  int reported = 0;
  fuzz(production(), cpu(), {}, [&](const Judged&) { return ++reported < 3; });
  EXPECT_EQ(reported, 3);
}

// A path that is wrong for D >= 5 only. Its simplest reproducer has size 1 in each other dimension.
TEST(Fuzz, ShrinksToTheSimplestReproducer) {
  Path path = registry().op("dynamic_conv").path("cpu");
  path.run = [run = path.run](const Call& call) {
    run(call);
    if (call.dims[kD] < 5 || call.outputs[kOut].size() == 0) return;
    *static_cast<unsigned char*>(call.outputs[kOut].data) ^= 0xFF;
  };
  const Subject subject{&registry().op("dynamic_conv"), &path, &registry().oracle("dynamic_conv")};
  FuzzOptions options;
  options.stop_at_first_failure = true;
  const auto all = fuzz_all(subject, options);
  ASSERT_FALSE(all.empty());
  const Judged& failure = all.back();
  ASSERT_EQ(failure.verdict.kind, VerdictKind::kFail);
  ASSERT_TRUE(failure.shrunk_from);
  EXPECT_EQ(failure.which.dims, (Dims{{"b", 1}, {"t", 1}, {"d", 5}, {"w", 1}})) << failure.which.to_string();
  EXPECT_EQ(failure.which.layout, Layout::kDense);
  EXPECT_EQ(failure.which.state, State{});
  EXPECT_EQ(failure.which.seed, 0u);
  // The case line alone reproduces the failure.
  const Case again = parse_case(failure.which.to_string());
  EXPECT_EQ(judge(subject, again, cpu()).reason, failure.verdict.reason);
  for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_FALSE(is_failure(all[i].verdict.kind));
}

Judged first_failure(const Judging& judging, uint64_t seed) {
  FuzzOptions options;
  options.seed = seed;
  options.stop_at_first_failure = true;
  Judged last;
  fuzz(production(), judging, options, [&](const Judged& judged) {
    last = judged;
    return true;
  });
  return last;
}

// A path that fails in a call before that of the case. What is reported is that call alone.
TEST(Fuzz, ShrinksToTheCallThatFails) {
  const auto is_wide = [](const Dims& dims) {
    const auto is_empty = [](const auto& dim) { return dim.second == 0; };
    return dims.at("d") > 17 && std::ranges::none_of(dims.values(), is_empty);
  };
  const auto is_wide_call = [&](const Step& step) {
    return step.kind == StepKind::kAfter && is_wide(step.dims);
  };
  std::set<std::string> tried;
  const Judging judging = [&](const Case& which) -> std::optional<Verdict> {
    const bool fails = is_wide(which.dims) || std::ranges::any_of(which.state.steps, is_wide_call);
    if (fails || !tried.empty()) {
      EXPECT_TRUE(tried.insert(which.to_string()).second) << which.to_string() << " is judged twice";
    }
    return Verdict{.kind = fails ? VerdictKind::kFail : VerdictKind::kPass, .reason = "", .outputs = {}};
  };
  int in_steps = 0;
  for (uint64_t seed = 0; in_steps < 5; ++seed) {
    ASSERT_LT(seed, 100u);
    tried.clear();
    const Judged failure = first_failure(judging, seed);
    ASSERT_TRUE(failure.shrunk_from);
    EXPECT_EQ(failure.which.dims, (Dims{{"b", 1}, {"t", 1}, {"d", 18}, {"w", 1}}))
        << failure.shrunk_from->to_string() << " shrinks to " << failure.which.to_string();
    EXPECT_EQ(failure.which.state, State{});
    EXPECT_EQ(failure.which.layout, Layout::kDense);
    if (!is_wide(failure.shrunk_from->dims)) ++in_steps;
  }
}

// A path that fails only after such a call.
TEST(Fuzz, ShrinksTheCallBeforeTheOneThatFails) {
  const auto is_wide_call = [](const Step& step) {
    return step.kind == StepKind::kAfter && step.dims.at("d") > 17;
  };
  const Judging judging = [&](const Case& which) -> std::optional<Verdict> {
    const bool fails = std::ranges::any_of(which.state.steps, is_wide_call);
    return Verdict{.kind = fails ? VerdictKind::kFail : VerdictKind::kPass, .reason = "", .outputs = {}};
  };
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const Judged failure = first_failure(judging, seed);
    ASSERT_TRUE(failure.shrunk_from);
    const auto step = std::ranges::find_if(failure.which.state.steps, is_wide_call);
    EXPECT_EQ(step->dims.at("d"), 18) << failure.which.to_string();
    EXPECT_LE(step->dims.at("t"), 1) << failure.which.to_string();
    EXPECT_EQ(step->layout, Layout::kDense) << failure.which.to_string();
    EXPECT_LE(failure.which.dims.at("d"), 1) << failure.which.to_string();
  }
}

// A path that is wrong almost everywhere. Many of its failures shrink to the same case.
TEST(Fuzz, NamesEachFailingCaseOnce) {
  FuzzOptions options;
  options.cases = 12;
  const auto all = fuzz_all(registry().subject("dynamic_conv", "specimen.tap_dropped"), options);
  std::set<std::string> failures;
  int as_drawn = 0;
  for (const Judged& judged : all) {
    if (!is_failure(judged.verdict.kind)) continue;
    EXPECT_TRUE(failures.insert(judged.which.to_string()).second) << judged.which.to_string();
    if (!judged.shrunk_from) ++as_drawn;
    EXPECT_EQ(judge(registry().subject("dynamic_conv", "specimen.tap_dropped"), judged.which, cpu()).reason,
              judged.verdict.reason);
  }
  EXPECT_GT(failures.size(), 1u);
  EXPECT_GT(as_drawn, 0);
}

TEST(Fuzz, ShrinksOnlyAsLongAsItMay) {
  FuzzOptions options;
  options.stop_at_first_failure = true;
  options.max_shrinks = 0;
  const auto all = fuzz_all(registry().subject("dynamic_conv", "specimen.taps_reversed"), options);
  ASSERT_TRUE(is_failure(all.back().verdict.kind));
  EXPECT_FALSE(all.back().shrunk_from);
}

TEST(Fuzz, CountsEveryKindOfFailure) {
  using enum VerdictKind;
  for (VerdictKind kind : {kPass, kUnsupported, kSkipped}) EXPECT_FALSE(is_failure(kind)) << name_of(kind);
  for (VerdictKind kind : {kFail, kMistrusted, kCrashed, kTimeout})
    EXPECT_TRUE(is_failure(kind)) << name_of(kind);
}

}  // namespace
}  // namespace assay
