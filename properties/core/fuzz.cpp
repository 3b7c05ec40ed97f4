// SPDX-License-Identifier: Apache-2.0
#include "properties/core/fuzz.h"

#include <set>
#include <string>

#include "properties/core/generate.h"

namespace assay {
namespace {

class Fuzzer {
 public:
  Fuzzer(const Judging& judging, const FuzzOptions& options) : judging_(judging), options_(options) {}

  bool is_over_budget() const {
    return options_.budget && std::chrono::steady_clock::now() - start_ >= *options_.budget;
  }
  bool has_timed_out() const { return timeouts_ >= options_.max_timeouts; }
  bool has_given_up() const { return has_given_up_; }

  std::optional<Verdict> judge(const Case& which) {
    std::optional<Verdict> verdict = judging_(which);
    has_given_up_ = !verdict;
    if (verdict && verdict->kind == VerdictKind::kTimeout) ++timeouts_;
    return verdict;
  }

  // Whether the verdict says of this case alone that it fails, and judging simpler ones is safe.
  bool can_shrink(const Verdict& verdict) const {
    return is_failure(verdict.kind) && verdict.fails_alone.value_or(true) &&
           (options_.shrinks_crashes || verdict.kind != VerdictKind::kCrashed);
  }

  Judged shrink(rc::Shrinkable<Case> failing, Verdict verdict) {
    const Case drawn = failing.value();
    Judged simplest{.which = drawn, .verdict = std::move(verdict), .shrunk_from = {}};
    int attempts = options_.max_shrinks;
    for (bool simpler = true; simpler;) {
      simpler = false;
      rc::Seq<rc::Shrinkable<Case>> candidates = failing.shrinks();
      while (auto candidate = candidates.next()) {
        if (candidate->value() == simplest.which) continue;
        if (attempts-- <= 0 || is_over_budget() || has_timed_out()) return simplest;
        std::optional<Verdict> again = judge(candidate->value());
        if (!again) return simplest;
        if (again->kind != simplest.verdict.kind || again->fails_alone != simplest.verdict.fails_alone)
          continue;
        simplest = {.which = candidate->value(), .verdict = *std::move(again), .shrunk_from = drawn};
        failing = *candidate;
        simpler = true;
        break;
      }
    }
    return simplest;
  }

 private:
  const Judging& judging_;
  const FuzzOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int timeouts_ = 0;
  bool has_given_up_ = false;
};

// Draws a case, up to three times until the path serves it. So a path that needs multiples of 16 is
// judged about as often as others, and is still asked for other sizes.
rc::Shrinkable<Case> draw(const rc::Gen<Case>& generator, rc::Random random, const Path& path) {
  rc::Shrinkable<Case> drawn = generator(random, rc::kNominalSize);
  for (int again = 0; again < 2; ++again) {
    const Case which = drawn.value();
    if (!path.unsupported || !path.unsupported(which.dims, which.dtype)) break;
    drawn = generator(random.split(), rc::kNominalSize);
  }
  return drawn;
}

}  // namespace

void fuzz(const Subject& subject, const Judging& judging, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report) {
  Fuzzer fuzzer(judging, options);
  Path path = *subject.path;
  if (options.dtype) path.dtypes = {*options.dtype};
  const rc::Gen<Case> generator = arbitrary_case(*subject.op, path, options.max_elements);
  rc::Random random(options.seed);
  std::set<std::string> failures;  // case lines reported so far
  for (int64_t i = 0; (options.budget || i < options.cases) && !fuzzer.is_over_budget(); ++i) {
    const rc::Random of_case = random.split();
    if (i % options.shards != options.shard) continue;
    const rc::Shrinkable<Case> drawn = draw(generator, of_case, path);
    if (const auto known = options.recall ? options.recall(drawn.value()) : std::nullopt) {
      if (is_failure(known->verdict.kind)) failures.insert(known->which.to_string());
      continue;
    }
    if (options.starts) options.starts(drawn.value());
    std::optional<Verdict> verdict = fuzzer.judge(drawn.value());
    if (!verdict) return;
    Judged judged{.which = drawn.value(), .verdict = *verdict, .shrunk_from = {}};
    if (fuzzer.can_shrink(*verdict)) {
      judged = fuzzer.shrink(drawn, *verdict);
      if (failures.contains(judged.which.to_string())) {
        judged = {.which = drawn.value(), .verdict = *std::move(verdict), .shrunk_from = {}};
      }
      failures.insert(judged.which.to_string());
    }
    const bool stop = fuzzer.has_given_up() || fuzzer.has_timed_out() ||
                      (options.stop_at_first_failure && is_failure(judged.verdict.kind));
    if (fuzzer.has_timed_out())
      judged.verdict.reason +=
          fmt::format("; after {} timeouts the path is judged no further", options.max_timeouts);
    if (!report(judged) || stop) return;
  }
}

void fuzz(const Subject& subject, Device& device, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report) {
  fuzz(
      subject, [&](const Case& which) { return judge(subject, which, device); }, options, report);
}

}  // namespace assay
