// SPDX-License-Identifier: Apache-2.0
#include "properties/core/fuzz.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "properties/core/across_cases.h"
#include "properties/core/generate.h"
#include "properties/core/precheck.h"

namespace assay {
namespace {

// rapidcheck shrinks no draw again once it has shrunk a later one. These go on where it ends: each
// call before that of the case, as a first call, since it may be the one that fails; the case with
// dense tensors in a call; and with one size of a call as small as can be, or nearer by a half, a
// quarter and so on.
std::vector<Case> simpler_cases(const Op& op, const Case& which) {
  std::vector<Case> simpler;
  for (const Step& step : which.state.steps) {
    if (step.kind != StepKind::kAfter) continue;
    Case call = which;
    call.dtype = step.dtype;
    call.dims = step.dims;
    call.layout = step.layout;
    call.state = {};
    simpler.push_back(std::move(call));
  }
  const auto add_simpler = [&](const auto& call_in) {
    Case same = which;
    const auto [dims, layout] = call_in(same);
    if (layout != Layout::kDense) {
      simpler.push_back(which);
      std::get<Layout&>(call_in(simpler.back())) = Layout::kDense;
    }
    for (const DimInfo& dim : op.dims) {
      const int64_t size = dims.at(dim.key);
      for (int64_t less = size - std::max<int64_t>(dim.min, 1); less > 0; less /= 2) {
        simpler.push_back(which);
        std::get<Dims&>(call_in(simpler.back())).set(dim.key, size - less);
      }
    }
  };
  add_simpler([](Case& one) { return std::tie(one.dims, one.layout); });
  for (size_t i = 0; i < which.state.steps.size(); ++i) {
    if (which.state.steps[i].kind == StepKind::kAfter)
      add_simpler([i](Case& one) {
        Step& step = one.state.steps[i];
        return std::tie(step.dims, step.layout);
      });
  }
  return simpler;
}

class Fuzzer {
 public:
  Fuzzer(const Op& op, const Judging& judging, const FuzzOptions& options)
      : op_(op), judging_(judging), options_(options), timeouts_(options.timeouts) {}

  bool is_over_budget() const {
    return options_.budget && std::chrono::steady_clock::now() - start_ >= *options_.budget;
  }
  int timeouts() const { return timeouts_; }
  bool has_timed_out() const { return timeouts_ >= options_.max_timeouts; }
  bool has_given_up() const { return has_given_up_; }
  bool has_failed_enough() const { return failures_ >= options_.max_failures.value_or(failures_ + 1); }

  std::optional<Verdict> judge(const Case& which) {
    std::optional<Verdict> verdict = judging_(which);
    has_given_up_ = !verdict;
    if (verdict && verdict->kind == VerdictKind::kTimeout) ++timeouts_;
    return verdict;
  }

  // The simplest case that fails as the drawn one does, unless it was reported before.
  Judged simplified(const rc::Shrinkable<Case>& drawn, Verdict verdict) {
    Judged failure{.which = drawn.value(), .verdict = verdict, .shrunk_from = {}};
    if (can_shrink(verdict)) {
      Judged simplest = shrink(drawn, verdict);
      if (!reported_.contains(simplest.which.to_string())) failure = std::move(simplest);
    }
    judge_alone(failure, drawn.value(), verdict);
    return failure;
  }

  // Keeps a failure that is reported. Returns whether it is the last one.
  bool ends_with(const Judged& failure) {
    ++failures_;
    reported_.insert(failure.which.to_string());
    if (failure.verdict.fails_alone == true) keep_smallest(failure);
    return options_.stop_at_first_failure || has_failed_enough();
  }

 private:
  static constexpr int kNewProcesses = 20;  // for the failures of one path

  // Whether the verdict says of this case alone that it fails, and judging simpler ones is safe.
  bool can_shrink(const Verdict& verdict) const {
    return is_failure(verdict.kind) && verdict.fails_alone.value_or(true) &&
           (options_.shrinks_crashes || verdict.kind != VerdictKind::kCrashed);
  }

  Judged shrink(rc::Shrinkable<Case> failing, Verdict verdict) {
    const Case drawn = failing.value();
    Judged simplest{.which = drawn, .verdict = std::move(verdict), .shrunk_from = {}};
    int attempts = options_.max_shrinks;
    bool is_over = false;
    std::set<std::string> tried{drawn.to_string()};
    // Goes on with the candidate if it fails as the drawn case does.
    const auto takes = [&](const rc::Shrinkable<Case>& candidate) {
      if (is_over || !tried.insert(candidate.value().to_string()).second) return false;
      is_over = attempts-- <= 0 || is_over_budget() || has_timed_out();
      if (is_over) return false;
      std::optional<Verdict> again = judge(candidate.value());
      is_over = !again;
      if (!again || again->kind != simplest.verdict.kind ||
          again->fails_alone != simplest.verdict.fails_alone)
        return false;
      simplest = {.which = candidate.value(), .verdict = *std::move(again), .shrunk_from = drawn};
      failing = candidate;
      return true;
    };
    const auto takes_one = [&] {
      rc::Seq<rc::Shrinkable<Case>> candidates = failing.shrinks();
      while (auto candidate = candidates.next()) {
        if (takes(*candidate)) return true;
        if (is_over) return false;
      }
      return std::ranges::any_of(simpler_cases(op_, simplest.which),
                                 [&](const Case& which) { return takes(rc::shrinkable::just(which)); });
    };
    while (!is_over && takes_one()) {
    }
    return simplest;
  }

  // Tells whether a failure comes again in a new process, if that is worth a process. A case that
  // was shrunk in a process with a history may need it. Then the drawn case is the failure.
  void judge_alone(Judged& failure, const Case& drawn, const Verdict& first) {
    const VerdictKind kind = failure.verdict.kind;
    const auto smallest = smallest_.find(kind);
    const bool is_known = failure.verdict.fails_alone.has_value();
    const bool is_larger = smallest != smallest_.end() && !is_smaller(failure.which, smallest->second);
    if (!options_.alone || is_known || is_larger || new_processes_ >= kNewProcesses) return;
    const auto comes_again = [&](const Case& which) {
      ++new_processes_;
      const std::optional<Verdict> again = options_.alone(which);
      has_given_up_ |= !again;
      return again && again->kind == kind;
    };
    bool alone = comes_again(failure.which);
    if (!alone && failure.shrunk_from) {
      failure = {.which = drawn, .verdict = first, .shrunk_from = {}};
      alone = comes_again(drawn);
    }
    if (!has_given_up_) failure.verdict.set_fails_alone(alone);
  }

  void keep_smallest(const Judged& failure) {
    const auto [known, is_first] = smallest_.emplace(failure.verdict.kind, failure.which);
    if (!is_first && is_smaller(failure.which, known->second)) known->second = failure.which;
  }

  const Op& op_;
  const Judging& judging_;
  const FuzzOptions& options_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int timeouts_;
  int64_t failures_ = 0;
  std::set<std::string> reported_;  // case lines of failures
  int new_processes_ = 0;
  std::map<VerdictKind, Case> smallest_;  // that fails alone
  bool has_given_up_ = false;
};

// Draws the cases of a run in order.
class Cases {
 public:
  Cases(const Subject& subject, const FuzzOptions& options, Refusing refuses)
      : options_(options), refuses_(std::move(refuses)), path_(*subject.path), random_(options.seed) {
    if (options.dtype) path_.dtypes = {*options.dtype};
    usual_ = arbitrary_case(*subject.op, path_, options.max_elements.value_or(kFuzzElements));
    large_ = arbitrary_large_case(*subject.op, path_);
  }

  // The next one of this shard, or nothing if there are no more.
  std::optional<rc::Shrinkable<Case>> next() {
    while (options_.budget || drawn_ < options_.cases) {
      const rc::Random random = random_.split();
      const int64_t i = drawn_++;
      if (i % options_.shards != options_.shard) continue;
      const bool is_large = !options_.max_elements && i % kLargeEvery == kLargeEvery - 1;
      return draw(is_large ? *large_ : *usual_, random);
    }
    return std::nullopt;
  }

 private:
  static constexpr int64_t kLargeEvery = 64;  // so 200 cases have three large ones

  // Draws a case, up to three times until the path serves it. So a path that needs multiples of 16
  // is judged about as often as others, and is still asked for other sizes.
  rc::Shrinkable<Case> draw(const rc::Gen<Case>& generator, rc::Random random) const {
    rc::Shrinkable<Case> drawn = generator(random, rc::kNominalSize);
    for (int again = 0; again < 2 && path_.unsupported && refuses_(drawn.value()); ++again)
      drawn = generator(random.split(), rc::kNominalSize);
    return drawn;
  }

  const FuzzOptions& options_;
  Refusing refuses_;
  Path path_;
  rc::Random random_;
  std::optional<rc::Gen<Case>> usual_, large_;
  int64_t drawn_ = 0;
};

}  // namespace

void fuzz(const Subject& subject, const Judging& judging, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report) {
  Fuzzer fuzzer(*subject.op, judging, options);
  std::optional<Case> started;  // last
  const auto starts = [&](const Case& which) {
    if (options.starts && started != which) options.starts(which);
    started = which;
  };
  bool draws_ahead = false;
  const Refusing refuses = [&](const Case& which) {
    const bool is_known = options.recall && options.recall(which);
    if (!is_known && !draws_ahead) starts(which);  // the path may end its process, or hang
    if (options.refuses) return options.refuses(which);
    const std::optional<Verdict> verdict = ask_path(*subject.path, which.dims, which.dtype).verdict;
    return verdict && verdict->kind == VerdictKind::kUnsupported;
  };
  Cases cases(subject, options, refuses);
  AcrossCases across_cases;
  std::optional<rc::Shrinkable<Case>> following;
  while (!fuzzer.is_over_budget()) {
    const auto drawn = following ? std::exchange(following, std::nullopt) : cases.next();
    if (!drawn) return;
    const Case& which = drawn->value();
    if (auto known = options.recall ? options.recall(which) : std::nullopt) {
      across_cases.judge(which, known->verdict);
      if (is_failure(known->verdict.kind) && fuzzer.ends_with(*known)) return;
      continue;
    }
    if (fuzzer.has_timed_out()) return;
    starts(which);
    started.reset();
    if (options.expects) {
      draws_ahead = true;
      following = cases.next();
      draws_ahead = false;
      if (following) options.expects(following->value());
    }
    const int timeouts_before = fuzzer.timeouts();
    std::optional<Verdict> verdict = fuzzer.judge(which);
    if (!verdict) return;
    across_cases.judge(which, *verdict);
    Judged judged{.which = which, .verdict = *verdict, .shrunk_from = {}};
    if (is_failure(verdict->kind)) judged = fuzzer.simplified(*drawn, *std::move(verdict));
    judged.timeouts = fuzzer.timeouts() - timeouts_before;
    const bool is_last = is_failure(judged.verdict.kind) && fuzzer.ends_with(judged);
    if (fuzzer.has_timed_out()) {
      judged.verdict.reason +=
          fmt::format("; after {} timeouts the path is judged no further", options.max_timeouts);
    } else if (fuzzer.has_failed_enough()) {
      judged.verdict.reason += fmt::format("; after {} failure{} the path is judged no further",
                                           *options.max_failures, *options.max_failures == 1 ? "" : "s");
    }
    if (!report(judged) || is_last || fuzzer.has_given_up() || fuzzer.has_timed_out()) return;
  }
}

void fuzz(const Subject& subject, Device& device, const FuzzOptions& options,
          const std::function<bool(const Judged&)>& report) {
  fuzz(
      subject, [&](const Case& which) { return judge(subject, which, device); }, options, report);
}

}  // namespace assay
