// SPDX-License-Identifier: Apache-2.0
// What a study varies: dimensions of the op, properties of its tensors, and where its data come
// from. A point has one value of each axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/core/op.h"

namespace assay::study {

// What one tensor's values are like, beside the data that they come from. Let z be a number of the
// data. The value is scale * 2^e * (mean_over_std + z), and 0 outside the density.
enum class Property : uint8_t {
  kMeanOverStd,  // [1] added to z, whose standard deviation is 1 for normal data
  kScale,        // [1] a factor
  kSpread,       // [octaves] e is uniform within so many, another one for each element
  kRank,         // of the tensor as a matrix with its last axis as columns: a product of this rank,
                 // at most kMostRank: each element is a sum of so many products
  kDensity,      // [1] the share of elements that are not 0
};
inline constexpr double kMostRank = 4096;
std::string_view name_of(Property property);  // "mean_over_std"

// "normal", "outliers:1e-3:10" or "graded:20":
//   REGIME        one of properties/core/data.h
//   outliers:P:S  N(0,1), plus S * N(0,1) with probability P
//   graded:E      each index k of the last axis of the first input has a power of two within E
//                 octaves. Inputs that share this axis have its inverse, so that all products are
//                 as large as those of normal data [Demmel et al. 2025, "Grading the BLAS"].
struct DataSource {
  std::string text = "normal";
  enum class Kind : uint8_t { kRegime, kOutliers, kGraded } kind = Kind::kRegime;
  double first = 0, second = 0;  // P and S, or E
};
DataSource parse_data_source(const std::string& text);  // throws Error (usage)

struct AxisValue {
  std::string text = {};
  std::optional<double> number = {};  // absent for data
};

struct Axis {
  enum class Kind : uint8_t { kDim, kProperty, kData };

  std::string name = {};  // "n", "x.mean_over_std", "data"
  Kind kind = Kind::kDim;
  Property property = Property::kScale;
  std::vector<size_t> tensors = {};  // that have the property
  std::vector<AxisValue> values = {};

  bool is_numeric() const { return kind != Kind::kData; }
};

std::string_view name_of(Axis::Kind kind);  // "dim"

// "n=64:2048:x2", "n=64:512:+64", "x.mean_over_std=0,1,10,1e3", "weights.scale=0.25,1". `weights`
// are all inputs but the first; a name may be a glob. Throws Error (usage) that names the text.
Axis parse_axis(const Op& op, const std::string& text);
Axis parse_data_axis(const std::string& text);  // "normal,outliers:1e-3:10"

// One value of each axis: their numbers, in the order of the axes.
using Point = std::vector<size_t>;
// All of them; the last axis changes first. Throws Error (usage) if they are more than kMostPoints.
inline constexpr size_t kMostPoints = 10000;
std::vector<Point> points_of(const std::vector<Axis>& axes);
std::string text_of(const std::vector<Axis>& axes, const Point& point);  // "n=64 data=normal"

}  // namespace assay::study
