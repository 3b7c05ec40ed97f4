// SPDX-License-Identifier: Apache-2.0
#include "reports/render/html_charts.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "reports/render/text.h"

namespace assay {
namespace {

// ---- samples

constexpr double kWidth = 420;
constexpr double kLeft = 4;
constexpr double kRight = 416;
constexpr double kTop = 14;     // ECDF = 1
constexpr double kBottom = 84;  // ECDF = 0
constexpr double kStripHeight = 7;
constexpr double kStrips = 89;  // top of the first strip
constexpr double kAxis = 108;
constexpr double kHeight = 122;

struct Series {
  std::string_view name;
  std::vector<double> sorted;  // [ns]
};

struct Scale {
  double low;   // [ns] at kLeft
  double high;  // [ns] at kRight

  double operator()(double ns) const { return kLeft + (kRight - kLeft) * (ns - low) / (high - low); }
};

// Samples slower than this share are counted, not drawn: they would flatten the rest.
constexpr double kDrawnShare = 0.97;

Scale scale_of(const std::vector<Series>& series, double floor_ns) {
  double low = floor_ns > 0 ? floor_ns : series.front().sorted.front();
  double high = low;
  for (const Series& one : series) {
    const auto last = static_cast<size_t>(kDrawnShare * static_cast<double>(one.sorted.size() - 1));
    low = std::min(low, one.sorted.front());
    high = std::max(high, one.sorted[last]);
  }
  const double margin = high > low ? 0.03 * (high - low) : 0.5 * std::max(high, 1.0);
  return {low - margin, high + 2 * margin};
}

std::string ecdf_path(const Series& series, const Scale& x) {
  std::string path = fmt::format("M{:.1f} {:.1f}", kLeft, kBottom);
  double drawn = kLeft;
  const auto count = static_cast<double>(series.sorted.size());
  for (size_t i = 0; i < series.sorted.size(); ++i) {
    const double here = x(series.sorted[i]);
    if (here > kRight) break;
    const bool last_here = i + 1 == series.sorted.size() || x(series.sorted[i + 1]) - drawn > 0.5;
    if (!last_here) continue;
    path +=
        fmt::format("H{:.1f}V{:.1f}", here, kBottom - (kBottom - kTop) * static_cast<double>(i + 1) / count);
    drawn = here;
  }
  return path + fmt::format("H{:.1f}", kRight);
}

std::string strip_path(const Series& series, const Scale& x, double top) {
  std::string path;
  double drawn = -1;
  for (double sample : series.sorted) {
    const double here = x(sample);
    if (here > kRight || here - drawn < 0.3) continue;
    path += fmt::format("M{:.1f} {}v{}", here, top, kStripHeight);
    drawn = here;
  }
  return path;
}

// About four round numbers.
std::string axis(const Scale& x) {
  std::string text = fmt::format("<path class=\"axis\" d=\"M{} {}H{}\"/>", kLeft, kAxis, kRight);
  const double rough = (x.high - x.low) / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 2 ? 2 : rough / power < 5 ? 5 : 10);
  for (double tick = std::ceil(x.low / step) * step; tick < x.high; tick += step) {
    const double here = x(tick);
    if (tick < 0 || here < kLeft + 14 || here > kRight - 20) continue;
    text += fmt::format(
        "<path class=\"axis\" d=\"M{0:.1f} {1}v3\"/><text x=\"{0:.1f}\" y=\"{2}\" "
        "text-anchor=\"middle\">{3}</text>",
        here, kAxis, kHeight - 2, format_time(tick));
  }
  return text;
}

// ---- histogram

constexpr int kBins = 20;
constexpr double kBinWidth = 11;
constexpr double kEdgeGap = 6;  // before and after the bins of (0, 1]
constexpr double kHistogramBottom = 56;
constexpr double kHistogramHeight = 50;

double bin_left(int bin) {  // 0 is "exact", kBins + 1 is "beyond"
  return 2 + kBinWidth * bin + (bin > 0 ? kEdgeGap : 0) + (bin > kBins ? kEdgeGap : 0);
}

int bin_of(double ratio) {
  if (ratio == 0) return 0;
  if (!(ratio <= 1)) return kBins + 1;
  return std::max(1, static_cast<int>(std::ceil(ratio * kBins)));
}

}  // namespace

std::string sample_chart(const CaseRecord& item) {
  std::vector<Series> series;
  double floor_ns = 0;
  for (const std::optional<Perf>& perf : {item.perf, item.perf_warm}) {
    if (!perf || perf->samples_ns.empty()) continue;
    series.push_back({name_of(perf->cache), perf->samples_ns});
    std::ranges::sort(series.back().sorted);
    floor_ns = perf->floor_ns.value_or(0);
  }
  if (series.empty()) return "";
  const Scale x = scale_of(series, floor_ns);
  std::string svg = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"distribution of the samples over time\">", kWidth,
      kHeight);
  svg += fmt::format("<path class=\"axis\" d=\"M{0} {1}H{2}M{0} {3}H{2}\"/>", kLeft, kTop, kRight, kBottom);
  int64_t beyond = 0;
  double top = kStrips;
  for (const Series& one : series) {
    svg += fmt::format("<path class=\"ecdf {0}\" d=\"{1}\"/><path class=\"strip {0}\" d=\"{2}\"/>", one.name,
                       ecdf_path(one, x), strip_path(one, x, top));
    beyond += std::ranges::count_if(one.sorted, [&](double sample) { return x(sample) > kRight; });
    top += kStripHeight + 2;
  }
  // The two labels stand on opposite sides.
  const bool floor_is_left = floor_ns > 0 && x(floor_ns) < kWidth / 2;
  const auto label = [&](double at, bool to_the_right, const std::string& text) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"10\" text-anchor=\"{}\">{}</text>", at,
                       to_the_right ? "start" : "end", text);
  };
  if (floor_ns > 0) {
    const double here = x(floor_ns);
    svg += fmt::format("<path class=\"floor\" d=\"M{:.1f} 4V{}\"/>", here, kAxis);
    label(here + (floor_is_left ? 4 : -4), floor_is_left, "floor " + format_time(floor_ns));
  }
  if (beyond > 0) {
    label(floor_is_left ? kRight : kLeft, !floor_is_left,
          fmt::format("{} beyond {} →", plural(beyond, "sample"), format_time(x.high)));
  }
  return svg + axis(x) + "</svg>";
}

std::string ratio_histogram(const std::vector<double>& error_over_bound) {
  std::array<int64_t, kBins + 2> counts{};
  for (double ratio : error_over_bound) ++counts[static_cast<size_t>(bin_of(ratio))];
  const int64_t tallest = std::max<int64_t>(1, *std::ranges::max_element(counts));
  const double width = bin_left(kBins + 1) + kBinWidth + 14;
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {} 70\" role=\"img\" aria-label=\"cases by error over bound\">", width);
  for (int bin = 0; bin < kBins + 2; ++bin) {
    const int64_t count = counts[static_cast<size_t>(bin)];
    if (count == 0) continue;
    // A single case among thousands must still be seen.
    const double height =
        std::max(1.5, kHistogramHeight * static_cast<double>(count) / static_cast<double>(tallest));
    svg += fmt::format(
        "<rect class=\"{}\" x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"><title>{}</title></rect>",
        bin > kBins ? "beyond" : "within", bin_left(bin), kHistogramBottom - height, kBinWidth - 1, height,
        plural(count, "case"));
  }
  const double zero = bin_left(1);
  const double one = bin_left(kBins) + kBinWidth;
  svg += fmt::format("<path class=\"axis\" d=\"M0 {1}H{0}\"/>", width, kHistogramBottom);
  const auto label = [&](double x, std::string_view anchor, std::string_view text) {
    svg += fmt::format("<text x=\"{}\" y=\"67\" text-anchor=\"{}\">{}</text>", x, anchor, text);
  };
  label(0, "start", "exact");
  label((zero + one) / 2, "middle", "0.5");
  if (counts[kBins + 1] > 0) {
    label(width, "end", "beyond 1");
  } else {
    label(one, "middle", "1");
  }
  return svg + "</svg>";
}

}  // namespace assay
