// SPDX-License-Identifier: Apache-2.0
#include "properties/core/certificate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "oracles/core/compare.h"

namespace assay {
namespace {

double round_to(DType dtype, double value) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

// More than one ulp and more than the noise away from the right value, after rounding: no right path would have stored it.
bool is_visible(const Expected& expected, double rounded, DType dtype) {
  if (expected.is_open || !std::isfinite(expected.value)) return false;
  if (!std::isfinite(rounded)) return std::abs(expected.value) + expected.noise <= max_finite(dtype) / 2;
  const double ulp = ulp_at(dtype, std::max(std::abs(rounded), std::abs(expected.value)));
  return std::abs(rounded - expected.value) > std::max(ulp, expected.noise);
}

// A wrong answer: fills `values` for the compared elements [begin, begin + values.size()).
using WrongAnswer = std::function<void(size_t begin, std::span<double> values)>;

// Whether the wrong answer shows somewhere, and the comparison accepts all of it.
bool is_accepted(const Compared& compared, const WrongAnswer& wrong) {
  constexpr size_t kChunk = 1024;
  std::vector<double> values;
  bool shows = false;
  for (size_t begin = 0; begin < compared.elements.size(); begin += kChunk) {
    values.resize(std::min(kChunk, compared.elements.size() - begin));
    wrong(begin, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const Expected& expected = compared.expected[begin + i];
      const double rounded = round_to(compared.dtype, values[i]);
      if (!is_visible(expected, rounded, compared.dtype)) continue;
      shows = true;
      if (!is_right(expected, rounded, compared.dtype)) return false;
    }
  }
  return shows;
}

}  // namespace

std::optional<std::string> accepted_fault(const Compared& compared) {
  const auto& expected = compared.expected;
  const size_t count = expected.size();
  if (count == 0) return std::nullopt;
  const bool all_zero = std::ranges::all_of(expected, [](const Expected& e) { return e.value == 0; });

  const auto constant = [](double value) {
    return [value](size_t, std::span<double> values) { std::ranges::fill(values, value); };
  };
  const auto moved = [&](size_t begin, std::span<double> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = expected[(begin + i + 1) % count].value;
  };
  // The last eighth of the innermost dimension, at least one element, at most eight.
  const int64_t innermost = compared.shape[compared.shape.rank() - 1];
  const int64_t tile = std::clamp<int64_t>(innermost / 8, 1, 8);
  const auto without_tail = [&](size_t begin, std::span<double> values) {
    for (size_t i = 0; i < values.size(); ++i) {
      const bool in_tail = compared.elements[begin + i] % innermost >= innermost - tile;
      values[i] = in_tail ? 0 : expected[begin + i].value;
    }
  };
  const auto previous = [&](size_t begin, std::span<double> values) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = compared.previous[begin + i];
  };

  if (is_accepted(compared, constant(all_zero ? 1 : 0))) return all_zero ? "ones" : "zeros";
  if (is_accepted(compared, moved)) return "every element moved by one";
  if (is_accepted(compared, without_tail)) return "the last tile left at zero";
  if (!compared.previous.empty() && is_accepted(compared, previous)) return "the previous call's output";

  std::vector<Expected> answers;
  for (const Counterfeit& counterfeit : compared.oracle.counterfeits) {
    const Answer answer = counterfeit.solve(compared.question, compared.output);
    const auto counterfeited = [&](size_t begin, std::span<double> values) {
      answers.resize(values.size());
      answer(compared.elements.subspan(begin, values.size()), answers);
      std::ranges::transform(answers, values.begin(), [](const Expected& e) { return e.value; });
    };
    if (is_accepted(compared, counterfeited)) return std::string(counterfeit.fault);
  }
  return std::nullopt;
}

}  // namespace assay
