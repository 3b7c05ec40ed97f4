// SPDX-License-Identifier: Apache-2.0
#include "study/errors.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/parallel.h"
#include "properties/core/compare.h"
#include "properties/core/random.h"
#include "study/statistics.h"

namespace assay::study {
namespace {

std::optional<double> ratio(std::optional<double> error, std::optional<double> yardstick) {
  if (!error || !yardstick || *yardstick == 0) return std::nullopt;
  return *error / *yardstick;
}

}  // namespace

std::vector<int64_t> chosen_elements(const Extents& shape, uint64_t seed) {
  std::vector<int64_t> elements;
  if (element_count(shape) == 0) return elements;
  const int axes = std::max(shape.rank() - 1, 0);  // all but that of a row
  const int64_t length = shape.rank() == 0 ? 1 : shape[axes];
  // Doubles the share of the axis that has the smallest one, while more rows are wanted.
  const auto wanted = static_cast<double>(std::max(kRows, kElements / length));
  std::vector<int64_t> counts(static_cast<size_t>(axes), 1);
  for (double rows = 1; rows < wanted;) {
    int sparsest = -1;
    double most = 1;
    for (int axis = 0; axis < axes; ++axis) {
      const double left =
          static_cast<double>(shape[axis]) / static_cast<double>(counts[static_cast<size_t>(axis)]);
      if (left > most) sparsest = axis;
      most = std::max(most, left);
    }
    if (sparsest < 0) break;
    int64_t& count = counts[static_cast<size_t>(sparsest)];
    rows /= static_cast<double>(count);
    count = std::min(2 * count, shape[sparsest]);
    rows *= static_cast<double>(count);
  }
  // Of each axis one index from each of as many parts, and all combinations of them.
  const CounterRandom random(seed, 9000);
  elements.push_back(0);
  for (int axis = 0; axis <= axes && shape.rank() > 0; ++axis) {
    const int64_t size = shape[axis], count = axis == axes ? size : counts[static_cast<size_t>(axis)];
    std::vector<int64_t> longer;
    for (int64_t start : elements) {
      for (int64_t part = 0; part < count; ++part) {
        const int64_t first = part * size / count, end = (part + 1) * size / count;
        const auto offset = random.bits(static_cast<uint64_t>(part), static_cast<uint64_t>(axis)) %
                            static_cast<uint64_t>(end - first);
        longer.push_back(start * size + first + static_cast<int64_t>(offset));
      }
    }
    elements = std::move(longer);
  }
  return elements;
}

std::vector<Ball> evaluate(const Oracle& oracle, const Question& question, int output,
                           const Arithmetic& arithmetic, std::span<const int64_t> elements, int64_t row) {
  std::vector<Ball> values(elements.size());
  if (elements.empty()) return values;
  const Evaluate formula = oracle.formula(question, output, arithmetic, 0);
  constexpr int64_t kGrain = 128;
  const int64_t grain = row * std::max<int64_t>(1, kGrain / row);
  parallel_for(std::ssize(elements), grain, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
    formula(elements.subspan(first, count), std::span(values).subspan(first, count));
  });
  return values;
}

std::optional<double> normwise(std::span<const double> a, std::span<const double> b,
                               std::span<const double> exact) {
  double errors = 0, values = 0;
  bool has_any = false;
  for (size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]) || !std::isfinite(exact[i])) continue;
    has_any = true;
    errors += (a[i] - b[i]) * (a[i] - b[i]);
    values += exact[i] * exact[i];
  }
  if (!has_any) return std::nullopt;
  if (errors == 0) return 0;
  if (values == 0) return std::nullopt;
  return std::sqrt(errors / values);
}

Errors errors_of(const Answered& answered, DType dtype) {
  const auto& [got, exact, unrounded, balls, sizes] = answered;
  Errors errors{.elements = std::ssize(got)};
  std::vector<double> magnitudes, relative, computed;
  double squares = 0, sum = 0, outward = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const Ball& ball = balls[i];
    computed.push_back(ball.is_open() ? kNan : ball.mid);
    const Expected expected{.value = ball.mid,
                            .bound = ball.is_open() ? 0 : ball.radius,
                            .exact = exact[i],
                            .is_open = ball.is_open(),
                            .is_signed = ball.is_signed && ball.mid == 0 && ball.radius == 0};
    errors.outside += !is_right(expected, got[i], dtype);
    if (!std::isfinite(exact[i])) continue;
    if (!std::isfinite(got[i])) {
      ++errors.nonfinite;
      continue;
    }
    const double error = got[i] - exact[i];
    squares += exact[i] * exact[i];
    sum += error;
    outward += exact[i] < 0 ? -error : error;
    magnitudes.push_back(std::abs(error));
    if (exact[i] != 0) relative.push_back(std::abs(error / exact[i]));
    if (sizes.empty() || std::isnan(sizes[i])) continue;
    const double size = std::max(sizes[i], std::abs(exact[i]));
    if (size > 0) errors.over_terms = std::max(errors.over_terms.value_or(0), std::abs(error) / size);
  }
  errors.normwise = normwise(got, exact, exact);
  errors.over_best = ratio(errors.normwise, normwise(computed, exact, exact));
  if (!unrounded.empty())
    errors.over_input_rounding = ratio(errors.normwise, normwise(unrounded, exact, exact));
  if (!relative.empty()) {
    errors.componentwise = quantile(relative, 1);
    errors.componentwise_p999 = quantile(relative, 0.999);
  }
  if (magnitudes.empty() || squares == 0) return errors;
  const auto count = static_cast<double>(magnitudes.size());
  const double rms = std::sqrt(squares / count);
  errors.mean = sum / count / rms;
  errors.mean_outward = outward / count / rms;
  errors.worst = quantile(magnitudes, 1) / rms;
  errors.worst_p999 = quantile(magnitudes, 0.999) / rms;
  return errors;
}

}  // namespace assay::study
