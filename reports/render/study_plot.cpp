// SPDX-License-Identifier: Apache-2.0
#include "reports/render/study_plot.h"

#include <algorithm>
#include <cmath>

#include "reports/render/text.h"

namespace assay {
namespace {

bool has_logarithm(double value) {
  return value > 0 && std::isfinite(value);
}

// The decades of some values, with a margin.
std::pair<double, double> decades_of(const std::vector<double>& values) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (double value : values) {
    if (!has_logarithm(value)) continue;
    low = std::min(low, std::log10(value));
    high = std::max(high, std::log10(value));
  }
  if (low > high) return {-1, 1};
  const double margin = std::max(0.06 * (high - low), 0.15);
  return {low - margin, high + margin};
}

}  // namespace

Plot::Plot(double width, double height, double right)
    : width_(width), height_(height), right_(width - right), bottom_(height - 18) {
  body_ = fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>", left_, top_, bottom_, right_);
}

double Plot::at_x(double value) const {
  return left_ + (right_ - left_) * (std::log10(value) - x_low_) / (x_high_ - x_low_);
}

double Plot::at_y(double value) const {
  return bottom_ - (bottom_ - top_) * (std::log10(value) - y_low_) / (y_high_ - y_low_);
}

void Plot::tick(double x, const std::string& text) {
  body_ += fmt::format(
      "<path class=\"axis\" d=\"M{0:.1f} {1}v3\"/><text x=\"{0:.1f}\" y=\"{2}\" "
      "text-anchor=\"middle\">{3}</text>",
      x, bottom_, height_ - 4, escape_markup(text));
}

void Plot::set_x(const std::vector<double>& values) {
  std::tie(x_low_, x_high_) = decades_of(values);
}

void Plot::set_values(const std::vector<study::AxisValue>& values) {
  count_ = values.size();
  const size_t step = (count_ + 5) / 6;
  for (size_t i = 0; i < count_; i += step)
    tick(left_ + (right_ - left_) * (static_cast<double>(i) + 0.5) / static_cast<double>(count_),
         values[i].text);
}

void Plot::set_y(const std::vector<double>& values) {
  std::tie(y_low_, y_high_) = decades_of(values);
  const auto step = std::max(1, static_cast<int>(std::ceil((y_high_ - y_low_) / 5)));
  for (int decade = static_cast<int>(std::ceil(y_low_)); decade <= y_high_; decade += step) {
    const double y = at_y(std::pow(10, decade));
    body_ += fmt::format(
        "<path class=\"axis\" d=\"M{} {:.1f}h-3\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">1e{}</text>",
        left_, y, left_ - 5, y + 3, decade);
  }
}

void Plot::set_y_near_one(const std::vector<double>& values) {
  std::tie(y_low_, y_high_) = decades_of(values);
  for (double value : {0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4}) {
    if (std::log10(value) < y_low_ || std::log10(value) > y_high_) continue;
    const double y = at_y(value);
    body_ += fmt::format(
        "<path class=\"axis\" d=\"M{} {:.1f}h-3\"/><text x=\"{}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">{:g}</text>",
        left_, y, left_ - 5, y + 3, value);
  }
}

void Plot::set_shares() {
  for (const auto& [share, text] : {std::pair(0.0, "0 %"), std::pair(0.5, "50 %"), std::pair(1.0, "100 %")})
    body_ += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left_ - 5,
                         bottom_ - (bottom_ - top_) * share + 3, text);
}

void Plot::axis_of_times() {
  const double range = x_high_ - x_low_;
  const double step = range > 2 ? 1 : range > 0.9 ? 0.30103 : range / 5;  // decades
  for (double decade = std::ceil(x_low_ / step) * step; decade <= x_high_; decade += step)
    tick(at_x(std::pow(10, decade)), format_time(std::pow(10, decade)));
}

void Plot::axis_of_decades() {
  const auto step = std::max(1, static_cast<int>(std::ceil((x_high_ - x_low_) / 5)));
  for (int decade = static_cast<int>(std::ceil(x_low_)); decade <= x_high_; decade += step)
    tick(at_x(std::pow(10, decade)), fmt::format("1e{}", decade));
}

void Plot::axis_of_bytes() {
  const auto step = std::max(1, static_cast<int>(std::ceil((x_high_ - x_low_) / 5)));
  for (int decade = static_cast<int>(std::ceil(x_low_)); decade <= x_high_; decade += step)
    tick(at_x(std::pow(10, decade)), format_bytes(static_cast<int64_t>(std::pow(10, decade))));
}

void Plot::line(const std::vector<double>& y, std::string_view style) {
  std::string path;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!has_logarithm(y[i])) continue;
    const double x = left_ + (right_ - left_) * (static_cast<double>(i) + 0.5) / static_cast<double>(count_);
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, at_y(y[i]));
  }
  if (!path.empty()) body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>", style, path);
}

void Plot::ecdf(const std::vector<double>& sorted, std::string_view style) {
  std::string path;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const double share = static_cast<double>(i + 1) / static_cast<double>(sorted.size());
    const double x = has_logarithm(sorted[i]) ? std::clamp(at_x(sorted[i]), left_, right_) : left_;
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x, bottom_ - (bottom_ - top_) * share);
  }
  if (!path.empty()) body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>", style, path);
}

void Plot::horizontal(double y, std::string_view style) {
  if (has_logarithm(y))
    body_ += fmt::format("<path class=\"{}\" d=\"M{} {:.1f}H{}\"/>", style, left_, at_y(y), right_);
}

void Plot::point(std::optional<double> x, double y, std::string_view style, std::string_view label) {
  const double here = x && has_logarithm(*x) ? at_x(*x) : right_ + 8;
  const double there = has_logarithm(y) ? at_y(y) : y > 0 ? top_ : bottom_;
  body_ +=
      fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"><title>{}</title></circle>",
                  style, here, there, escape_markup(label));
  // Labels that would overlap move up or down, but not on the axis. Those beyond the plot do not
  // meet those within it.
  double text = there + 3;
  const double side = x ? 0 : 1e4, start = text;
  const auto is_free = [&](double at) {
    return at < bottom_ + 4 &&
           std::ranges::none_of(labels_, [&](double taken) { return std::abs(taken - (at + side)) < 10; });
  };
  for (int step = 1; !is_free(text) && step < 40; ++step) text = start + (step % 2 == 0 ? 5 : -5) * step;
  labels_.push_back(text + side);
  const bool is_left = x && here > right_ - 120;
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                       here + (is_left ? -7 : 7), text, is_left ? "end" : "start", escape_markup(label));
}

void Plot::dot(double x, double y, std::string_view style, std::string_view title) {
  if (!has_logarithm(x) || !has_logarithm(y)) return;
  body_ +=
      fmt::format("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\"><title>{}</title></circle>",
                  style, at_x(x), at_y(y), escape_markup(title));
}

std::string Plot::svg(std::string_view what) const {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>", width_, height_,
                     what, body_);
}

}  // namespace assay
