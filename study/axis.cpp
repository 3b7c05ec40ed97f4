// SPDX-License-Identifier: Apache-2.0
#include "study/axis.h"

#include <fnmatch.h>

#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "kernels/core/did_you_mean.h"
#include "kernels/core/printable.h"
#include "properties/core/data.h"

namespace assay::study {
namespace {

constexpr std::array kProperties{Property::kMeanOverStd, Property::kScale, Property::kSpread, Property::kRank,
                                 Property::kDensity};
constexpr size_t kMostValues = 1000;  // of an axis

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::optional<double> number_in(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) return std::nullopt;
  return number;
}

// "64:2048:x2" or "64:512:+64".
std::vector<AxisValue> range(const std::string& text, const std::string& axis,
                             const std::vector<std::string>& parts) {
  const auto bad = [&] {
    return usage_error("{} is not a range such as {}=64:2048:x2 or {}=64:512:+64", excerpt(text), axis, axis);
  };
  if (parts.size() != 3 || parts[2].size() < 2) throw bad();
  const bool multiplies = parts[2][0] == 'x';
  const auto low = number_in(parts[0]), high = number_in(parts[1]), step = number_in(parts[2].substr(1));
  if (!low || !high || !step || (!multiplies && parts[2][0] != '+')) throw bad();
  if (*low > *high || (multiplies ? !(*step > 1 && *low > 0) : !(*step > 0))) throw bad();
  std::vector<AxisValue> values;
  for (double value = *low; value <= *high * (1 + 1e-12);
       value = multiplies ? value * *step : value + *step) {
    if (values.size() == kMostValues) throw usage_error("{} has more than {} values", axis, kMostValues);
    values.push_back({fmt::format("{}", value), value});
  }
  return values;
}

std::vector<AxisValue> values_of(const std::string& axis, const std::string& text) {
  const std::vector<std::string> ends = split(text, ':');
  if (ends.size() > 1) return range(axis + "=" + text, axis, ends);
  std::vector<AxisValue> values;
  for (const std::string& word : split(text, ',')) {
    const auto number = number_in(word);
    if (!number) throw usage_error("{}: '{}' is not a number", axis, excerpt(word));
    values.push_back({word, number});
  }
  return values;
}

std::vector<size_t> tensors_named(const Op& op, const std::string& glob) {
  std::vector<size_t> found;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const std::string name(op.inputs[i].name);
    if (glob == "weights" ? i > 0 : fnmatch(glob.c_str(), name.c_str(), 0) == 0) found.push_back(i);
  }
  return found;
}

void require_values(const Axis& axis) {
  std::set<std::string> seen;
  std::set<double> numbers;
  if (axis.values.size() > kMostValues)
    throw usage_error("{} has more than {} values", axis.name, kMostValues);
  for (const auto& [text, number] : axis.values) {
    const auto bad = [&](std::string_view why) {
      return usage_error("{}={} {}", axis.name, excerpt(text), why);
    };
    if (!seen.insert(text).second || (number && !numbers.insert(*number).second)) throw bad("stands twice");
    if (!number) continue;
    const bool is_whole = *number == std::floor(*number) && std::abs(*number) < 0x1p53;
    if (axis.kind == Axis::Kind::kDim && !(is_whole && *number >= 0)) throw bad("is no size");
    if (axis.kind != Axis::Kind::kProperty) continue;
    if (axis.property == Property::kRank && !(is_whole && *number >= 1 && *number <= kMostRank))
      throw bad(fmt::format("is no rank from 1 to {}", kMostRank));
    if (axis.property == Property::kDensity && !(*number >= 0 && *number <= 1)) throw bad("is no share");
    if (axis.property == Property::kSpread && !(*number >= 0)) throw bad("is negative");
  }
}

}  // namespace

std::string_view name_of(Property property) {
  switch (property) {
    case Property::kMeanOverStd:
      return "mean_over_std";
    case Property::kScale:
      return "scale";
    case Property::kSpread:
      return "spread";
    case Property::kRank:
      return "rank";
    case Property::kDensity:
      return "density";
  }
  throw Error("Property({}) is not a property", static_cast<int>(property));
}

std::string_view name_of(Axis::Kind kind) {
  switch (kind) {
    case Axis::Kind::kDim:
      return "dim";
    case Axis::Kind::kProperty:
      return "property";
    case Axis::Kind::kData:
      return "data";
  }
  throw Error("Axis::Kind({}) is not a kind", static_cast<int>(kind));
}

DataSource parse_data_source(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  const auto number = [&](size_t i) { return i < parts.size() ? number_in(parts[i]) : std::nullopt; };
  if (parts[0] == "outliers") {
    const auto share = number(1), scale = number(2);
    if (parts.size() != 3 || !share || !scale || !(*share >= 0 && *share <= 1) || !(*scale > 0))
      throw usage_error("data {} is not outliers:SHARE:SCALE, such as outliers:1e-3:10", excerpt(text));
    return {text, DataSource::Kind::kOutliers, *share, *scale};
  }
  if (parts[0] == "graded") {
    const auto octaves = parts.size() == 1 ? std::optional(20.0) : number(1);
    if (parts.size() > 2 || !octaves || !(*octaves >= 0 && *octaves <= 200))
      throw usage_error("data {} is not graded:OCTAVES, such as graded:20", excerpt(text));
    return {text, DataSource::Kind::kGraded, *octaves};
  }
  parse_data(text);
  return {.text = text};
}

Axis parse_axis(const Op& op, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) throw usage_error("{} is not an axis such as n=64:2048:x2", excerpt(text));
  Axis axis{.name = text.substr(0, equals)};
  std::vector<std::string> known;
  for (const DimInfo& dim : op.dims) {
    known.emplace_back(dim.key);
    if (dim.key != axis.name) continue;
    axis.values = values_of(axis.name, text.substr(equals + 1));
    require_values(axis);
    return axis;
  }
  axis.kind = Axis::Kind::kProperty;
  const size_t dot = axis.name.rfind('.');
  for (Property property : kProperties) {
    for (const TensorInfo& tensor : op.inputs)
      known.push_back(fmt::format("{}.{}", tensor.name, name_of(property)));
    known.push_back(fmt::format("weights.{}", name_of(property)));
    if (dot == std::string::npos || axis.name.substr(dot + 1) != name_of(property)) continue;
    axis.property = property;
    axis.tensors = tensors_named(op, axis.name.substr(0, dot));
  }
  if (axis.tensors.empty())
    throw usage_error("{} has no axis {}{}", op.name, excerpt(axis.name), did_you_mean(axis.name, known));
  axis.values = values_of(axis.name, text.substr(equals + 1));
  require_values(axis);
  return axis;
}

Axis parse_data_axis(const std::string& text) {
  Axis axis{.name = "data", .kind = Axis::Kind::kData};
  for (const std::string& word : split(text, ',')) {
    parse_data_source(word);
    axis.values.push_back({word, std::nullopt});
  }
  require_values(axis);
  return axis;
}

std::vector<Point> points_of(const std::vector<Axis>& axes) {
  size_t count = 1;
  for (const Axis& axis : axes) {
    count *= axis.values.size();
    if (count > kMostPoints) throw usage_error("the axes have more than {} points", kMostPoints);
  }
  std::vector<Point> points{{}};
  for (const Axis& axis : axes) {
    std::vector<Point> longer;
    for (const Point& point : points) {
      for (size_t value = 0; value < axis.values.size(); ++value) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    }
    points = std::move(longer);
  }
  return points;
}

std::string text_of(const std::vector<Axis>& axes, const Point& point) {
  std::string text;
  for (size_t i = 0; i < axes.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", axes[i].name, axes[i].values[point[i]].text);
  return text;
}

}  // namespace assay::study
