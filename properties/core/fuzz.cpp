// SPDX-License-Identifier: Apache-2.0
#include "properties/core/fuzz.h"

#include <set>
#include <string>

#include "properties/core/generate.h"

namespace assay {
namespace {

Judged shrink(const Subject& subject, Device& device, rc::Shrinkable<Case> failing, Verdict verdict,
              int attempts) {
  const Case drawn = failing.value();
  Judged simplest{.which = drawn, .verdict = std::move(verdict), .shrunk_from = {}};
  for (bool simpler = true; simpler;) {
    simpler = false;
    rc::Seq<rc::Shrinkable<Case>> candidates = failing.shrinks();
    while (auto candidate = candidates.next()) {
      if (candidate->value() == simplest.which) continue;
      if (attempts-- <= 0) return simplest;
      Verdict again = judge(subject, candidate->value(), device);
      if (again.kind != simplest.verdict.kind) continue;
      simplest = {.which = candidate->value(), .verdict = std::move(again), .shrunk_from = drawn};
      failing = *candidate;
      simpler = true;
      break;
    }
  }
  return simplest;
}

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

void fuzz(const Subject& subject, Device& device, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_over_budget = [&] {
    return options.budget && std::chrono::steady_clock::now() - start >= *options.budget;
  };
  Path path = *subject.path;
  if (options.dtype) path.dtypes = {*options.dtype};
  const rc::Gen<Case> generator = arbitrary_case(*subject.op, path, options.max_elements);
  rc::Random random(options.seed);
  std::set<std::string> failures;  // case lines reported so far
  for (int64_t i = 0; (options.budget || i < options.cases) && !is_over_budget(); ++i) {
    const rc::Random of_case = random.split();
    if (i % options.shards != options.shard) continue;
    const rc::Shrinkable<Case> drawn = draw(generator, of_case, path);
    if (const auto known = options.recall ? options.recall(drawn.value()) : std::nullopt) {
      if (is_failure(known->verdict.kind)) failures.insert(known->which.to_string());
      continue;
    }
    if (options.starts) options.starts(drawn.value());
    Verdict verdict = judge(subject, drawn.value(), device);
    Judged judged{.which = drawn.value(), .verdict = {}, .shrunk_from = {}};
    if (is_failure(verdict.kind) && verdict.kind != VerdictKind::kCrashed) {
      judged = shrink(subject, device, drawn, verdict, options.max_shrinks);
      if (failures.contains(judged.which.to_string())) {
        judged = {.which = drawn.value(), .verdict = std::move(verdict), .shrunk_from = {}};
      }
      failures.insert(judged.which.to_string());
    } else {
      judged.verdict = std::move(verdict);
    }
    const bool stop = options.stop_at_first_failure && is_failure(judged.verdict.kind);
    if (!report(judged) || stop) return;
  }
}

}  // namespace assay
