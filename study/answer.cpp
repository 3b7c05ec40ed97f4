// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>

#include "study/findings.h"

namespace assay::study {
namespace {

// Times are one if their intervals come as near as this: the more exact path is preferred. Medians
// of one path differ by about as much from run to run.
constexpr double kSameTime = 1.05;

std::string number(double value) {
  return fmt::format("{:.3g}", value);
}

std::string time_text(double ns) {
  return ns < 1e6 ? fmt::format("{:.3g} µs", ns / 1e3) : fmt::format("{:.3g} ms", ns / 1e6);
}

std::string target_text(const Study& study) {
  const Target& target = study.target;
  std::string text = fmt::format("a normwise error <= {}", number(target.normwise));
  if (target.worst) text += fmt::format(" and each element within {} of the rms", number(*target.worst));
  return text + (study.draws < kDrawsFor95 ? fmt::format(" in each of {} draws", study.draws)
                                           : std::string(" in 95 % of draws"));
}

std::string listed(const std::vector<std::string>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

// "projections makes 53 % of its squared error"; empty without sites.
std::string largest_site(const Study& study, size_t contender, size_t point) {
  std::map<std::string, double> squares;
  double sum = 0;
  for (const SiteShare& share : study.sites) {
    if (share.contender != contender || share.point != point) continue;
    squares[share.site] += share.alone * share.alone;
    sum += share.alone * share.alone;
  }
  if (sum == 0) return "";
  const auto largest = std::ranges::max_element(squares, {}, [](const auto& site) { return site.second; });
  return fmt::format("; {} makes {:.0f} % of its squared error", largest->first, 100 * largest->second / sum);
}

// By how much the target is missed.
double miss(const Study& study, const PointSummary& at) {
  const double normwise = at.largest / study.target.normwise;
  return study.target.worst ? std::max(normwise, at.worst_largest / *study.target.worst) : normwise;
}

// A contender at the deciding point.
struct Candidate {
  const Summary* summary;
  const PointSummary* at;  // null: not reached
  const Time* time;        // that counts; null: there is none

  double low_ns() const { return time->low_ns.value_or(*time->median_ns); }
  double high_ns() const { return time->high_ns.value_or(*time->median_ns); }
  Standing standing() const { return at == nullptr ? Standing::kAbsent : at->standing; }
};

// Why the target is not met.
std::string shortfall(const Study& study, const PointSummary& at) {
  std::string text;
  if (at.outside > 0) text += fmt::format("; {} elements lie outside the ball of its recipe", at.outside);
  if (at.nonfinite > 0) text += fmt::format("; {} elements are not finite", at.nonfinite);
  if (at.standing == Standing::kOpen) {
    text += fmt::format("; {} of {} draws above the target are too few to tell", at.above, at.draws);
  } else if (text.empty() && std::isfinite(miss(study, at))) {
    const double times = miss(study, at);
    text +=
        fmt::format("; misses the target {}-fold",
                    times >= 10 && times < 1e6 ? fmt::format("{:.0f}", times) : fmt::format("{:.2g}", times));
  }
  return text;
}

// Of a study with several points: at how many the target is met, and where the error is largest.
std::string over_all_points(const Study& study, const Summary& summary, size_t deciding) {
  if (study.points.size() < 2) return "";
  const auto met = std::ranges::count(summary.points, Standing::kMet, &PointSummary::standing);
  std::string text = fmt::format("; meets the target at {} of {} points", met, summary.points.size());
  const auto worst = std::ranges::max_element(summary.points, {}, &PointSummary::largest);
  if (worst->point != deciding && worst->draws > 0)
    text += fmt::format(", errs most at {}, by {}", text_of(study.axes, study.points[worst->point]),
                        number(worst->largest));
  return text;
}

std::string ground_of(const Study& study, const Candidate& one, const Candidate* cheapest) {
  const std::string name = study.label(one.summary->contender);
  if (one.at == nullptr) return name + ": not reached";
  const PointSummary& at = *one.at;
  std::string text = at.standing == Standing::kAbsent ? fmt::format("{}: not there: {}", name, at.why_not)
                                                      : fmt::format("{}: the largest error of {} draws is {}",
                                                                    name, at.draws, number(at.largest));
  if (at.standing != Standing::kAbsent) {
    if (one.time != nullptr) text += fmt::format(", {}", time_text(*one.time->median_ns));
    const Time* const time = time_at(study, one.summary->contender, at.point);
    if (time != nullptr && !time->implausible.empty())
      text += fmt::format(", its time is implausible: {}", time->implausible);
    if (at.standing != Standing::kMet) text += shortfall(study, at);
    if (at.standing != Standing::kMet && cheapest != nullptr && one.time != nullptr &&
        one.high_ns() * kSameTime < cheapest->low_ns())
      text += fmt::format(" and saves {}", time_text(*cheapest->time->median_ns - *one.time->median_ns));
    text += largest_site(study, one.summary->contender, at.point);
  }
  return text + over_all_points(study, *one.summary, at.point);
}

// Of those that meet the target. Null if none is timed.
struct Best {
  const Candidate* fastest;
  const Candidate* cheapest;  // the most exact of those that are about as fast as the fastest one
};

Best best_of(const std::vector<Candidate>& all) {
  std::vector<const Candidate*> timed;
  for (const Candidate& one : all) {
    if (one.standing() == Standing::kMet && one.time != nullptr) timed.push_back(&one);
  }
  if (timed.empty()) return {};
  const Candidate* const fastest =
      *std::ranges::min_element(timed, {}, [](const Candidate* one) { return *one->time->median_ns; });
  std::erase_if(timed, [&](const Candidate* one) { return one->low_ns() > fastest->high_ns() * kSameTime; });
  return {fastest, *std::ranges::min_element(timed, {}, [](const Candidate* one) {
            return std::pair(one->at->largest, *one->time->median_ns);
          })};
}

// "a and b miss it"
std::string clause(const std::vector<std::string>& names, std::string_view one, std::string_view several) {
  return names.empty() ? "" : fmt::format("; {} {}", listed(names), names.size() == 1 ? one : several);
}

std::string sentence_of(const Study& study, const std::vector<Candidate>& all, const Best& best) {
  const auto label = [&](const Candidate& one) { return study.contenders[one.summary->contender].label(); };
  std::vector<std::string> untimed, open, missed, absent;
  for (const Candidate& one : all) {
    const std::string name = label(one);
    switch (one.standing()) {
      case Standing::kMet:
        if (one.time == nullptr) untimed.push_back(name);
        break;
      case Standing::kOpen:
        open.push_back(name);
        break;
      case Standing::kMissed:
        missed.push_back(name);
        break;
      case Standing::kAbsent:
        absent.push_back(name);
        break;
    }
  }
  std::string text;
  if (best.cheapest != nullptr) {
    text = fmt::format("the cheapest path with {} is {}", target_text(study), label(*best.cheapest));
    if (best.fastest != best.cheapest)
      text += fmt::format(", more exact than {} and not slower for certain", label(*best.fastest));
    if (!untimed.empty()) text += fmt::format("; not timed, {} would do, too", listed(untimed));
  } else if (!untimed.empty()) {
    text = fmt::format("{}: {}; none of them is timed", target_text(study), listed(untimed));
  } else {
    text = fmt::format("nothing here has {}", target_text(study));
    missed.clear();
  }
  return text + clause(missed, "misses it", "miss it") +
         clause(open, "is too close to it to tell", "are too close to it to tell") +
         clause(absent, "is not there", "are not there") + ".";
}

}  // namespace

Answer answer_of(const Study& study, const std::vector<Summary>& summaries) {
  const auto point = deciding_point(study, summaries);
  if (!point) return {.sentence = "Nothing was studied.", .grounds = {}};
  std::vector<Candidate> all;
  for (const Summary& summary : summaries) {
    const Time* const time = time_at(study, summary.contender, *point);
    all.push_back({&summary, summary.at(*point), time != nullptr && time->counts() ? time : nullptr});
  }
  const Best best = best_of(all);
  const Candidate* const cheapest = best.cheapest;
  Answer answer;
  answer.sentence = sentence_of(study, all, best);
  if (study.points.size() > 1)
    answer.sentence = fmt::format("at {}, {}", text_of(study.axes, study.points[*point]), answer.sentence);
  answer.sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(answer.sentence[0])));
  if (study.shards > 1)
    answer.sentence += fmt::format(" This is shard {}/{} of the points.", study.shard + 1, study.shards);
  if (!study.complete) answer.sentence += " The study is not complete.";
  if (cheapest != nullptr) answer.grounds.push_back(ground_of(study, *cheapest, nullptr));
  for (const Candidate& one : all)
    if (&one != cheapest) answer.grounds.push_back(ground_of(study, one, cheapest));
  return answer;
}

}  // namespace assay::study
