// SPDX-License-Identifier: Apache-2.0
#include "properties/core/certificate.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/core/parallel.h"
#include "properties/core/compare.h"

namespace assay {
namespace {

double round_to(DType dtype, double value) {
  return visit(dtype, [&]<class T>(std::type_identity<T>) { return to_double(from_double<T>(value)); });
}

// Whether a wrong answer, once stored, differs from the computed value by more than one ulp and by
// more than rounding makes of this data.
bool is_visible(const Expected& expected, double rounded, double noise, DType dtype) {
  if (expected.is_open || !std::isfinite(expected.value)) return false;
  if (!std::isfinite(rounded)) return std::abs(expected.value) + expected.bound <= max_finite(dtype) / 2;
  const double ulp = ulp_at(dtype, std::max(std::abs(rounded), std::abs(expected.value)));
  return std::abs(rounded - expected.value) > std::max(ulp, noise);
}

// A wrong answer. It fills `values` for the compared elements [begin, begin + values.size()).
// Several threads call it at once.
using WrongAnswer = std::function<void(size_t begin, std::span<double> values)>;

// What was seen of part of a wrong answer.
struct Look {
  bool shows = false;
  bool is_rejected = false;
};

Look look_at(const Compared& compared, const WrongAnswer& wrong, size_t begin, size_t count) {
  std::vector<double> values(count);
  wrong(begin, values);
  Look look;
  for (size_t i = 0; i < count && !look.is_rejected; ++i) {
    const Expected& expected = compared.expected[begin + i];
    const double rounded = round_to(compared.dtype, values[i]);
    if (!is_visible(expected, rounded, compared.noise, compared.dtype)) continue;
    look.shows = true;
    look.is_rejected = !is_right(expected, rounded, compared.dtype);
  }
  return look;
}

// Whether the wrong answer shows somewhere while the comparison accepts all of it. Nearly always
// the first elements reject it; otherwise all threads look at the rest.
bool is_accepted(const Compared& compared, const WrongAnswer& wrong) {
  constexpr size_t kLargestChunk = 2048;
  const size_t count = compared.elements.size();
  bool shows = false;
  size_t begin = 0;
  for (size_t chunk = 32; chunk < kLargestChunk && begin < count; chunk *= 4) {
    const size_t length = std::min(chunk, count - begin);
    const Look look = look_at(compared, wrong, begin, length);
    if (look.is_rejected) return false;
    shows |= look.shows;
    begin += length;
  }
  std::atomic<bool> shows_later = false, is_rejected = false;
  parallel_for(static_cast<int64_t>(count - begin), kLargestChunk, [&](int64_t from, int64_t to) {
    if (is_rejected) return;
    const Look look =
        look_at(compared, wrong, begin + static_cast<size_t>(from), static_cast<size_t>(to - from));
    if (look.shows) shows_later = true;
    if (look.is_rejected) is_rejected = true;
  });
  return (shows || shows_later) && !is_rejected;
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

  for (size_t i = 0; i < compared.oracle.faults.size(); ++i) {
    // Rounded as the path rounds: what differs from the computed value is the fault's work alone.
    const Arithmetic computed(Arithmetic::Mode::kBall);
    const Evaluate formula =
        compared.oracle.formula(compared.question, compared.output, computed, static_cast<int>(i) + 1);
    if (!formula) continue;
    const auto faulty = [&](size_t begin, std::span<double> values) {
      std::vector<Ball> balls(values.size());
      formula(compared.elements.subspan(begin, values.size()), balls);
      std::ranges::transform(balls, values.begin(), [](const Ball& ball) { return ball.mid; });
    };
    if (is_accepted(compared, faulty)) return std::string(compared.oracle.faults[i]);
  }
  return std::nullopt;
}

}  // namespace assay
