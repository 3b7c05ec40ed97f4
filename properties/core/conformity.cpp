// SPDX-License-Identifier: Apache-2.0
#include "properties/core/conformity.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "kernels/core/parallel.h"

namespace assay {
namespace {

const double kSurprise = std::log(1e9);

// Runs of neighbours, evenly spaced: samples then share what neighbours share.
std::vector<size_t> choose(size_t count, bool shares_rows) {
  std::vector<size_t> chosen;
  const size_t runs = count <= kSampledElements ? 1 : shares_rows ? kSampledRuns / 4 : kSampledRuns;
  const size_t length = std::min(count, kSampledElements) / runs;
  for (size_t run = 0; run < runs; ++run) {
    const size_t first = runs == 1 ? 0 : run * (count - length) / (runs - 1);
    for (size_t i = 0; i < length; ++i) chosen.push_back(first + i);
  }
  return chosen;
}

std::vector<Ball> evaluate(const Conforming& judged, std::span<const int64_t> elements,
                           const Arithmetic& arithmetic) {
  constexpr int64_t kGrain = 64;
  std::vector<Ball> values(elements.size());
  const Evaluate formula = judged.oracle.formula(judged.question, judged.output, arithmetic, 0);
  parallel_for(static_cast<int64_t>(elements.size()), kGrain, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin), count = static_cast<size_t>(end - begin);
    formula(elements.subspan(first, count), std::span(values).subspan(first, count));
  });
  return values;
}

// Of values that these elements depend on, without the elements themselves.
int64_t doubts_inside(const Conforming& judged, std::span<const int64_t> elements) {
  std::atomic<int64_t> doubts = 0;
  int64_t own = 0;
  for (const Ball& value : evaluate(judged, elements, Arithmetic(&doubts))) own += value.radius > 0 ? 1 : 0;
  return std::max<int64_t>(0, doubts - own);
}

}  // namespace

double largest_energy(double mean, double largest_block, double flip) {
  const double w = std::max(4 * largest_block, flip);
  const double v = mean + kSurprise / kSamples * flip;
  if (v == 0) return 0;
  double low = 1, high = 2;
  const auto surprise = [&](double t) { return v / w * (t * std::log(t) - t + 1); };
  while (surprise(high) < kSurprise) high *= 2;
  while (high - low > 1e-6 * high) {
    const double t = (low + high) / 2;
    (surprise(t) < kSurprise ? low : high) = t;
  }
  return high * v;
}

std::optional<Conformity> conformity_of(const Conforming& judged) {
  std::vector<int64_t> elements;
  std::vector<double> computed, got;
  double flip = 0;
  for (size_t i : choose(judged.elements.size(), judged.oracle.shares_rows)) {
    const Expected& expected = judged.expected[i];
    if (expected.is_open || !std::isfinite(expected.value) || !std::isfinite(judged.got[i])) continue;
    elements.push_back(judged.elements[i]);
    computed.push_back(expected.value);
    got.push_back(judged.got[i]);
    const double one = std::min(expected.bound, ulp_at(judged.dtype, expected.value));
    flip = std::max(flip, one * one);
  }
  if (elements.empty()) return std::nullopt;

  // The elements of a block are neighbours.
  int64_t block = 1;
  const int shared = judged.oracle.block_axes[static_cast<size_t>(judged.output)];
  for (int axis = shared; axis < judged.shape.rank(); ++axis) block *= judged.shape[axis];
  double largest = 0, largest_block = 0, largest_distance = 0;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    const Arithmetic path(Arithmetic::Mode::kSampled, sample);
    const std::vector<Ball> values = evaluate(judged, elements, path);
    double all = 0, of_block = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double distance = values[i].mid - computed[i];
      if (!std::isfinite(distance)) return std::nullopt;  // right paths overflow here
      if (i > 0 && elements[i] / block != elements[i - 1] / block) of_block = 0;
      of_block += distance * distance;
      all += distance * distance;
      largest_distance = std::max(largest_distance, std::abs(distance));
      largest_block = std::max(largest_block, of_block);
    }
    largest = std::max(largest, all);
  }
  double energy = 0;
  for (size_t i = 0; i < got.size(); ++i) energy += (got[i] - computed[i]) * (got[i] - computed[i]);
  const auto count = static_cast<double>(got.size());
  return Conformity{.rms = std::sqrt(energy / count),
                    .predicted = std::sqrt(largest / count),
                    .allowed = std::sqrt(largest_energy(largest, largest_block, flip) / count),
                    .largest = largest_distance,
                    .count = static_cast<int64_t>(got.size()),
                    .doubts = doubts_inside(judged, elements)};
}

}  // namespace assay
