// SPDX-License-Identifier: Apache-2.0
// A plot with logarithmic axes as inline SVG, with colours from the stylesheet.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "study/axis.h"

namespace assay {

// Both scales are logarithmic, so what is not positive and finite is left out. Set both before
// anything is drawn.
class Plot {
 public:
  // `right` is room for labels beyond the plot.
  Plot(double width, double height, double right);

  void set_x(const std::vector<double>& values);
  void set_values(const std::vector<study::AxisValue>& values);  // x are these, evenly spaced
  void set_y(const std::vector<double>& values);                 // with ticks at some decades
  void set_y_near_one(const std::vector<double>& values);        // with ticks at 1, 1.5, 2, 3, 5
  void set_shares();                                             // y runs from 0 to 1

  void axis_of_times();    // x in [ns]
  void axis_of_decades();  // x
  void axis_of_bytes();    // x in [bytes]

  void line(const std::vector<double>& y, std::string_view style);  // over set_values()
  void ecdf(const std::vector<double>& sorted, std::string_view style);
  void horizontal(double y, std::string_view style);
  // At the right end if there is no x.
  void point(std::optional<double> x, double y, std::string_view style, std::string_view label);

  void dot(double x, double y, std::string_view style, std::string_view title);  // without a label

  std::string svg(std::string_view what) const;

 private:
  double at_x(double value) const;
  double at_y(double value) const;
  void tick(double x, const std::string& text);

  double width_, height_, left_ = 40, right_, top_ = 8, bottom_;
  double x_low_ = 0, x_high_ = 1, y_low_ = 0, y_high_ = 1;  // decades
  size_t count_ = 0;                                        // of set_values()
  std::vector<double> labels_;                              // heights that are taken
  std::string body_;
};

}  // namespace assay
