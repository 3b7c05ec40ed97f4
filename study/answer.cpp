// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include <algorithm>
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
  return ns < 1e6 ? fmt::format("{:.3g} us", ns / 1e3) : fmt::format("{:.3g} ms", ns / 1e6);
}

std::string target_text(const Target& target) {
  std::string text = fmt::format("a normwise error <= {}", number(target.normwise));
  if (target.worst) text += fmt::format(" and each element within {} of the rms", number(*target.worst));
  return text + " in 95 % of draws";
}

std::string listed(const std::vector<std::string>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} and {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

// "projections makes 53 % of its squared error"; empty without sites.
std::string largest_site(const Study& study, size_t contender) {
  std::map<std::string, double> squares;
  double sum = 0;
  for (const SiteShare& share : study.sites) {
    if (share.contender != contender) continue;
    squares[share.site] += share.alone * share.alone;
    sum += share.alone * share.alone;
  }
  if (sum == 0) return "";
  const auto largest = std::ranges::max_element(squares, {}, [](const auto& site) { return site.second; });
  return fmt::format("; {} makes {:.0f} % of its squared error", largest->first, 100 * largest->second / sum);
}

// By how much the target is missed.
double miss(const Study& study, const PointSummary& point) {
  const double normwise = point.limit / study.target.normwise;
  return study.target.worst ? std::max(normwise, point.worst_limit / *study.target.worst) : normwise;
}

std::string ground_of(const Study& study, const Summary& summary, const Summary* cheapest) {
  const std::string name = study.label(summary.contender);
  if (!summary.decisive)
    return fmt::format("{}: {}", name, summary.why_not.empty() ? "no cells" : summary.why_not);
  const PointSummary& point = summary.points[*summary.decisive];
  std::string text = fmt::format("{}: upper limit {}", name, number(point.limit));
  if (const std::string at = text_of(study.axes, study.points[point.point]); study.points.size() > 1)
    text += fmt::format(" at {}", at);
  if (summary.median_ns) text += fmt::format(", {}", time_text(*summary.median_ns));
  if (summary.standing != Standing::kMet) {
    int64_t nonfinite = 0, outside = 0;
    double most = 0;
    for (const PointSummary& one : summary.points) {
      nonfinite += one.nonfinite;
      outside += one.outside;
      most = std::max(most, miss(study, one));
    }
    if (outside > 0) text += fmt::format("; {} elements lie outside the ball of its recipe", outside);
    if (nonfinite > 0) text += fmt::format("; {} elements are not finite", nonfinite);
    if (summary.standing == Standing::kOpen) {
      text += "; too close to the target to tell";
    } else if (outside == 0 && nonfinite == 0 && std::isfinite(most)) {
      text += fmt::format("; misses the target {:.2g}-fold", most);
    }
    if (!summary.why_not.empty()) text += fmt::format("; {}", summary.why_not);
    if (cheapest != nullptr && summary.high_ns && *summary.high_ns * kSameTime < *cheapest->low_ns)
      text += fmt::format(" and saves {}", time_text(*cheapest->median_ns - *summary.median_ns));
  }
  return text + largest_site(study, summary.contender);
}

}  // namespace

Answer answer_of(const Study& study, const std::vector<Summary>& summaries) {
  std::vector<const Summary*> timed;
  std::vector<std::string> untimed, open, misses;
  for (const Summary& summary : summaries) {
    if (summary.points.empty()) continue;
    const std::string name = study.contenders[summary.contender].label();
    switch (summary.standing) {
      case Standing::kMet:
        if (summary.median_ns) timed.push_back(&summary);
        if (!summary.median_ns) untimed.push_back(name);
        break;
      case Standing::kOpen:
        open.push_back(name);
        break;
      case Standing::kMissed:
        misses.push_back(name);
        break;
    }
  }
  const Summary* cheapest = nullptr;
  if (!timed.empty()) {
    const Summary* const fastest = *std::ranges::min_element(timed, {}, &Summary::median_ns);
    for (const Summary* one : timed) {
      if (*one->low_ns > *fastest->high_ns * kSameTime) continue;
      const auto limit = [](const Summary& of) { return of.points[*of.decisive].limit; };
      if (cheapest == nullptr || limit(*one) < limit(*cheapest)) cheapest = one;
    }
  }
  Answer answer;
  if (cheapest != nullptr) {
    answer.sentence = fmt::format("The cheapest path with {} is {}", target_text(study.target),
                                  study.contenders[cheapest->contender].label());
    if (!untimed.empty()) answer.sentence += fmt::format("; not timed, {} would do, too", listed(untimed));
  } else if (!untimed.empty()) {
    answer.sentence =
        fmt::format("{}: {}; none of them is timed", target_text(study.target), listed(untimed));
    answer.sentence[0] = 'A';
  } else {
    answer.sentence = fmt::format("Nothing here has {}", target_text(study.target));
  }
  if (!misses.empty() && (cheapest != nullptr || !untimed.empty()))
    answer.sentence += fmt::format("; {} {} it", listed(misses), misses.size() == 1 ? "misses" : "miss");
  if (!open.empty())
    answer.sentence +=
        fmt::format("; {} {} too close to it to tell", listed(open), open.size() == 1 ? "is" : "are");
  answer.sentence += ".";
  if (!study.complete) answer.sentence += " The study is not complete.";
  if (cheapest != nullptr) answer.grounds.push_back(ground_of(study, *cheapest, nullptr));
  for (const Summary& summary : summaries)
    if (&summary != cheapest) answer.grounds.push_back(ground_of(study, summary, cheapest));
  return answer;
}

}  // namespace assay::study
