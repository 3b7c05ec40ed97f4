// SPDX-License-Identifier: Apache-2.0
#include "properties/core/conformity.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/core/parallel.h"
#include "properties/core/random.h"
#include "properties/core/regime.h"

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

int64_t size_of(const Extents& shape, int first_axis) {
  int64_t size = 1;
  for (int axis = first_axis; axis < shape.rank(); ++axis) size *= shape[axis];
  return size;
}

// Whether values inside the formula may round either way.
bool rounds_inside(const Recipe& recipe) {
  const auto rounds = [](const Rounding& r) { return r.format != Format::kStored && !is_split(r.format); };
  return std::ranges::any_of(recipe.roundings, rounds);
}

// The beginning of a row at random in each of kRankedRows parts of the output, or in all.
std::vector<size_t> choose_rows(const Conforming& judged) {
  constexpr uint64_t kStream = 2001;
  const int64_t part = size_of(judged.shape, judged.oracle.doubt_axes);
  const int64_t row = judged.shape[judged.shape.rank() - 1];
  std::vector<size_t> parts;  // where they begin
  for (size_t i = 0; i < judged.elements.size(); ++i) {
    if (i == 0 || judged.elements[i] / part != judged.elements[i - 1] / part) parts.push_back(i);
  }
  const size_t step = (parts.size() + kRankedRows - 1) / kRankedRows;
  std::vector<size_t> chosen;
  for (size_t p = 0; p < parts.size(); p += step) {
    const size_t end = p + 1 < parts.size() ? parts[p + 1] : judged.elements.size();
    size_t i = parts[p] + CounterRandom(0, kStream).bits(p) % (end - parts[p]);
    const int64_t of_row = judged.elements[i] / row;
    while (i > parts[p] && judged.elements[i - 1] / row == of_row) --i;
    for (size_t n = 0; n < kSampledElements / kRankedRows && i < end && judged.elements[i] / row == of_row;
         ++n)
      chosen.push_back(i++);
  }
  return chosen;
}

std::vector<Ball> evaluate(const Conforming& judged, std::span<const int64_t> elements,
                           const Arithmetic& arithmetic) {
  constexpr int64_t kGrain = kSampledElements / kRankedRows;  // a row
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

bool spreads_errors(const Case& which) {
  return is_continuous(which.data) && which.layout != Layout::kBroadcast;
}

double largest_energy(double energy, double largest_block, double flip, int samples) {
  const double w = std::max(4 * largest_block, flip);
  const double v = energy + kSurprise / samples * flip;
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

int64_t most_farthest(int64_t rows) {
  const auto n = static_cast<double>(rows);
  double probability = std::pow(0.25, n), more = 0;  // of `most` rows, and of more than that
  int64_t most = rows;
  while (most > 0 && more + probability <= 1e-9) {
    more += probability;
    probability *= 3 * static_cast<double>(most) / (n - static_cast<double>(most) + 1);
    --most;
  }
  return most;
}

std::optional<Conformity> conformity_of(const Conforming& judged) {
  std::vector<int64_t> elements;
  std::vector<double> computed, got;
  double flip = 0;
  const bool may_doubt = rounds_inside(judged.question.recipe);
  const bool is_ranked = may_doubt && judged.oracle.doubt_axes > 0;
  for (size_t i :
       is_ranked ? choose_rows(judged) : choose(judged.elements.size(), judged.oracle.shares_rows)) {
    const Expected& expected = judged.expected[i];
    if (expected.is_open || !std::isfinite(expected.value) || !std::isfinite(judged.got[i])) continue;
    elements.push_back(judged.elements[i]);
    computed.push_back(expected.value);
    got.push_back(judged.got[i]);
    const double one = std::min(expected.bound, ulp_at(judged.dtype, expected.value));
    flip = std::max(flip, one * one);
  }
  if (elements.empty()) return std::nullopt;

  // The squared distances of each block, whose elements are neighbours.
  const auto energies_of = [&](const std::vector<double>& values, int64_t block) {
    std::vector<double> energies;
    for (size_t i = 0; i < values.size(); ++i) {
      if (i == 0 || elements[i] / block != elements[i - 1] / block) energies.push_back(0);
      energies.back() += (values[i] - computed[i]) * (values[i] - computed[i]);
    }
    return energies;
  };
  const auto sum_of = [](const std::vector<double>& energies) {
    return std::accumulate(energies.begin(), energies.end(), 0.0);
  };
  const int64_t block = size_of(judged.shape, judged.oracle.block_axes[static_cast<size_t>(judged.output)]);
  const int64_t part = size_of(judged.shape, judged.oracle.doubt_axes);
  const int64_t doubts = may_doubt ? doubts_inside(judged, elements) : 0;
  if (doubts > 0 && judged.oracle.doubt_axes == 0)
    throw Error("the oracle of {} leaves values in doubt, and has no doubt_axes", judged.oracle.op);
  double largest = 0, largest_block = 0, largest_distance = 0, allowed = 0;
  const std::vector<double> of_path = energies_of(got, part);
  std::vector<double> of_samples(of_path.size());  // the largest of each part
  const auto breaks_law = [&] { return doubts == 0 && sum_of(of_path) > allowed; };
  for (int sample = 0; sample < kSamples || (sample < kSamplesOfAlarm && breaks_law()); ++sample) {
    const Arithmetic right_path(Arithmetic::Mode::kSampled, static_cast<uint64_t>(sample));
    std::vector<double> values;
    for (const Ball& value : evaluate(judged, elements, right_path)) values.push_back(value.mid);
    for (size_t i = 0; i < values.size(); ++i) {
      const double distance = std::abs(values[i] - computed[i]);
      if (!std::isfinite(distance)) return std::nullopt;  // right paths overflow here
      largest_distance = std::max(largest_distance, distance);
    }
    const std::vector<double> of_blocks = energies_of(values, block), of_parts = energies_of(values, part);
    largest = std::max(largest, sum_of(of_blocks));
    largest_block = std::max(largest_block, *std::ranges::max_element(of_blocks));
    for (size_t i = 0; i < of_parts.size(); ++i) of_samples[i] = std::max(of_samples[i], of_parts[i]);
    allowed = largest_energy(largest, largest_block, flip, sample + 1);
  }
  const auto count = static_cast<double>(got.size());
  Conformity conformity{.rms = std::sqrt(sum_of(of_path) / count),
                        .predicted = std::sqrt(largest / count),
                        .allowed = std::sqrt(allowed / count),
                        .largest = largest_distance,
                        .count = static_cast<int64_t>(got.size()),
                        .doubts = doubts};
  if (is_ranked && conformity.doubts > 0) {
    conformity.rows = static_cast<int64_t>(of_path.size());
    for (size_t i = 0; i < of_path.size(); ++i) conformity.farthest += of_path[i] > 4 * of_samples[i] ? 1 : 0;
  }
  return conformity;
}

}  // namespace assay
